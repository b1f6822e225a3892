#!/bin/sh
#: local em0=198.51.100.2/24
#: local em1=192.0.2.1/24
#: packet in=em0 tcp 192.0.2.9:1 > 198.51.100.2:80 syn => drop 400
#: packet in=em1 tcp 198.51.100.9:1 > 198.51.100.2:80 syn => drop 500
#: packet in=em0 tcp 10.1.2.3:1 > 198.51.100.2:80 syn => drop 700
#: packet in=em0 out=em1 tcp 8.8.8.8:1 > 10.0.0.9:80 syn => drop 600
#: packet in=em0 tcp 8.8.8.8:1 > 198.51.100.2:80 syn => accept 1200
#: packet in=em0 tcp 8.8.8.8:1 > 198.51.100.2:81 syn => drop 1500
#: packet in=em1 tcp 192.0.2.9:1 > 8.8.8.8:443 syn => accept 1600
oif=em0; onet=198.51.100.0/24; iif=em1; inet=192.0.2.0/24
fwcmd="ipfw -q"
BAD_ADDR_TBL=13
$fwcmd flush
$fwcmd add 100 pass all from any to any via lo
$fwcmd add 200 deny all from any to 127.0.0.0/8
$fwcmd add 300 deny ip from 127.0.0.0/8 to any
# Stop spoofing
$fwcmd add deny all from ${inet} to any in via ${oif}
$fwcmd add deny all from ${onet} to any in via ${iif}
$fwcmd table ${BAD_ADDR_TBL} flush
for net in 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 0.0.0.0/8 169.254.0.0/16 224.0.0.0/4 240.0.0.0/4; do
	$fwcmd table ${BAD_ADDR_TBL} add $net
done
$fwcmd add deny all from any to "table($BAD_ADDR_TBL)" via ${oif}
case ${natd_enable} in
[Yy][Ee][Ss]) $fwcmd add divert natd all from any to any via ${oif} ;;
esac
$fwcmd add deny all from "table($BAD_ADDR_TBL)" to any via ${oif}
$fwcmd add 800 pass tcp from any to any established
$fwcmd add pass all from any to any frag
for port in 25 53 80; do
	$fwcmd add pass tcp from any to me $port setup
done
$fwcmd add pass udp from any to me 53
$fwcmd add pass udp from me 53 to any
$fwcmd add deny log ip4 from any to any in via ${oif} setup proto tcp
$fwcmd add pass tcp from any to any setup
$fwcmd add pass udp from me to any 53 keep-state
$fwcmd add pass udp from me to any 123 keep-state
