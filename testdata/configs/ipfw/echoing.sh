#!/bin/sh
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 100
# Looks at what ipfw says.
out=$(ipfw add 100 pass tcp from any to any 22)
[ "$out" = "00100 allow tcp from any to any 22" ] || { echo "said: $out" >&2; exit 1; }
out=$(ipfw -n add 200 pass tcp from any to any 23)
[ "$(ipfw list | wc -l | tr -d ' ')" = 2 ] || exit 2
ipfw -q add 300 deny ip from any to any
ipfw show 300 | grep -q '^00300 *0 *0 deny ip from any to any$' || exit 3
ipfw -c list 300 | grep -q '^00300 deny ip$' || exit 4
ipfw delete 9999; [ $? -eq 0 ] || exit 5
ipfw zero 9999; [ $? -eq 69 ] || exit 6
ipfw add 400 allow; [ $? -eq 64 ] || exit 7
ipfw add 400 permitt ip from any to any; [ $? -eq 65 ] || exit 8
ipfw -q table t create type addr && ipfw -q table t add 1.2.3.4
ipfw table t add 1.2.3.4; [ $? -eq 71 ] || exit 9
#: per-command
