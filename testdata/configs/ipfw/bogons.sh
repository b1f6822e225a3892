#!/bin/sh
#: packet in=wan0 tcp 192.168.1.1:1 > 192.0.2.1:80 syn => drop 1000
#: packet in=wan0 udp 8.8.4.4:53 > 192.0.2.1:80 => accept 5000
fwcmd="/sbin/ipfw"
wan="wan0"
n=1000
for b in 0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 \
    192.0.0.0/24 192.168.0.0/16 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4; do
	if [ -z "$list" ]; then list="$b"; else list="$list,$b"; fi
done
$fwcmd -q flush
$fwcmd -q add $n deny log ip from $list to any in via $wan
$fwcmd -q add $((n+10)) deny ip from any to 255.255.255.255 in via $wan
$fwcmd -q add 5000 allow ip from any to any
