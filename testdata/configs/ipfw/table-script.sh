#!/bin/sh
#: packet in=em0 tcp 198.51.100.77:1 > 192.0.2.1:80 syn => drop 100
#: packet in=em0 tcp 198.51.101.77:1 > 192.0.2.1:80 syn => accept 200
list="198.51.100.0/24
203.0.113.0/25   # a comment in the list
"
ipfw -q -f flush
ipfw -q table blocklist destroy 2>/dev/null
ipfw -q table blocklist create type addr
echo "$list" | sed 's/#.*//' | while read -r net; do
	[ -z "$net" ] && continue
	ipfw -q table blocklist add "$net"
done
ipfw table blocklist list | wc -l
ipfw -q add 100 deny ip from 'table(blocklist)' to any in
ipfw -q add 200 allow ip from any to any
ipfw -q table blocklist info > /dev/null || exit 1
