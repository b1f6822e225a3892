#!/bin/sh
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 192.0.2.77:1000 > 192.0.2.1:139 syn => accept 800
#: packet in=em0 tcp 203.0.113.9:1000 > 192.0.2.1:25 syn => accept 1400
#: packet in=em0 tcp 203.0.113.9:1000 > 192.0.2.1:80 syn => drop 1600
#: packet in=em0 tcp 203.0.113.9:1000 > 192.0.2.1:80 flags=none => accept 1200
#: packet out=em0 udp 192.0.2.1:1000 > 203.0.113.9:53 => accept 1700
#: packet in=em0 udp 203.0.113.9:53 > 192.0.2.1:1000 => drop 65535
. /etc/rc.subr
load_rc_config firewall
net="${firewall_client_net:-192.0.2.0/24}"
fwcmd="/sbin/ipfw -q"
${fwcmd} -f flush
${fwcmd} add 100 pass all from any to any via lo
${fwcmd} add 200 deny all from any to 127.0.0.0/8
${fwcmd} add 300 deny ip from 127.0.0.0/8 to any
# Limited broadcast from our network.
${fwcmd} add 700 pass all from any to 255.255.255.255
# All to and from our network.
${fwcmd} add pass all from ${net} to me
${fwcmd} add pass all from me to ${net}
${fwcmd} add 1200 pass tcp from any to any established
${fwcmd} add pass all from any to any frag
${fwcmd} add pass tcp from any to me 25 setup
${fwcmd} add pass tcp from me to any setup
${fwcmd} add deny tcp from any to any setup
${fwcmd} add pass udp from me to any 53 keep-state
${fwcmd} add pass udp from me to any 123 keep-state
