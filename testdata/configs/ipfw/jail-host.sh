#!/bin/sh
#: local em0=192.0.2.1/24
#: local em0=192.0.2.10/32
#: local em0=192.0.2.11/32
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.10:80 syn => accept 1000
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.11:25 syn => accept 1100
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.11:80 syn => drop 64000
#: packet out=em0 tcp 192.0.2.10:1 > 203.0.113.9:443 syn => drop 64000
#: packet out=em0 tcp 192.0.2.11:1 > 203.0.113.9:25 syn => accept 1110
# One block of numbers for each jail.
ipfw="/sbin/ipfw -q"
jails="www:192.0.2.10:80,443:none mail:192.0.2.11:25,587,993:25"
$ipfw -f flush
$ipfw table jails create type addr valtype skipto or-flush
$ipfw add 10 allow ip from any to any via lo
$ipfw add 20 check-state :default
n=1000
for j in $jails; do
	IFS=: read -r name addr in out <<-EOT
	$j
	EOT
	$ipfw table jails add $addr $n
	$ipfw add $n allow tcp from any to $addr $in in setup keep-state // $name in
	if [ "$out" != none ]; then
		$ipfw add $((n + 10)) allow tcp from $addr to any $out out setup keep-state // $name out
	fi
	n=$((n + 100))
done
$ipfw add 64000 deny log logamount 10 ip from any to any
