#!/bin/sh
#: local em0=192.0.2.1/24
#: local tun0=10.8.0.1/24
#: packet in=em0 udp 203.0.113.9:1 > 192.0.2.1:1194 => accept 400
#: packet in=tun0 tcp 10.8.0.9:1 > 10.8.0.1:22 syn => accept 500
#: packet in=em0 tcp 10.8.0.9:1 > 10.8.0.1:22 syn => drop 300
wan=em0
vpn="tun*"
sysctl net.inet.ip.forwarding=1 >/dev/null
sysctl -w net.inet.ip.fw.dyn_udp_lifetime=30
[ "$(sysctl -n net.inet.ip.fw.one_pass)" = 1 ] && sysctl net.inet.ip.fw.one_pass=0
kldload ipfw 2>/dev/null; kldload -n dummynet
f="ipfw -q"
$f flush
$f add 100 allow ip from any to any via lo
$f add 200 check-state
$f add 300 deny ip from 10.8.0.0/24 to any in via $wan
$f add 400 allow udp from any to me 1194 in via $wan keep-state
$f add 500 allow ip from 10.8.0.0/24 to any via "$vpn"
$f add 510 allow ip from any to 10.8.0.0/24 out via "$vpn"
$f add 600 allow ip from me to any out via $wan keep-state
$f add 65000 deny log ip from any to any
