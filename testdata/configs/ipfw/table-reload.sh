#!/bin/sh
#: packet in=em0 tcp 198.51.100.77:1 > 192.0.2.1:80 syn => drop 100
# A new table is filled and exchanged with the one in use.
ipfw -q -f flush
ipfw -q table bad create type addr or-flush
ipfw -q add 100 deny ip from table\(bad\) to any
ipfw -q add 200 allow ip from any to any
ipfw -q table bad_new create type addr missing
{
	echo "table bad_new flush"
	for n in 1 2 3 4 100; do echo "table bad_new add 198.51.$n.0/24"; done
} > /tmp/weir-ipfw-table.$$
ipfw -q /tmp/weir-ipfw-table.$$ ; rm -f /tmp/weir-ipfw-table.$$
ipfw -q table bad swap bad_new
ipfw -q table bad_new destroy
