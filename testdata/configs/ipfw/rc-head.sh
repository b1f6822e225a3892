#!/bin/sh
#: local em0=192.0.2.1/24
#: argument client
#: packet in=em0 tcp 192.0.2.77:1000 > 192.0.2.1:139 syn => accept 300
#: packet in=em0 tcp 203.0.113.9:1000 > 192.0.2.1:139 syn => drop 400
# Reads the settings as a script of the base system does, and takes a type as its argument.
if [ -z "${source_rc_confs_defined}" ]; then
	if [ -r /etc/defaults/rc.conf ]; then
		. /etc/defaults/rc.conf
		source_rc_confs || exit 9
	fi
fi
. /etc/rc.subr
. /etc/network.subr
[ -n "$1" ] && firewall_type=$1
if checkyesno firewall_quiet; then
	ipfw=/sbin/ipfw
else
	ipfw="/sbin/ipfw -q"
fi
[ "$firewall_type" = client ] || exit 8
afexists inet6 || exit 7
$ipfw -f flush
$ipfw add 100 allow ip from any to any via lo
$ipfw add 200 check-state
$ipfw add 300 allow ip from ${firewall_client_net} to me keep-state
$ipfw add 400 deny tcp from any to any $(echo $firewall_nologports | tr ' ' ,) in
