#!/bin/sh
#: packet in=em0 tcp 203.0.113.77:1 > 192.0.2.1:22 syn => reject 00111
#: packet in=em0 tcp 203.0.113.78:1 > 192.0.2.1:22 syn => accept 20000
ipfw -q add 20000 allow ip from any to any
num=110
for ip in 203.0.113.77 203.0.113.79; do
	while ipfw list | grep -q "^00$num "; do num=$((num + 1)); done
	num=$((num + 1))
	ipfw add $num unreach port tcp from $ip to any 22
done
ipfw list | awk '/203.0.113.79/{print $1}' | while read -r n; do ipfw delete $n; done
