#!/bin/sh
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:8080 syn => accept 1300
#: packet in=em0 udp 203.0.113.9:1 > 192.0.2.1:1194 => accept 1400
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:23 syn => reject 9000
set -e
fw() { /sbin/ipfw -q "$@"; }
rule() { n=$1; shift; fw add "$n" "$@"; }
allow_in() {
	proto=$1; port=$2; num=$3
	rule "$num" allow "$proto" from any to any "$port" in keep-state
}
fw -f flush
fw -f table all destroy
rule 100 check-state
allow_in tcp 22 1100
allow_in tcp 80 1200
allow_in tcp 8080 1300
allow_in udp 1194 1400
rule 9000 reset tcp from any to any in
rule 9100 unreach port udp from any to any in
rule 9200 allow ip from any to any out keep-state
