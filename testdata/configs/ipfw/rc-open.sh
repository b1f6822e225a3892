#!/bin/sh
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 203.0.113.9:4242 > 192.0.2.1:22 syn => accept 65000
#: packet in=em0 tcp 127.0.0.1:4242 > 192.0.2.1:22 syn => drop 300
#: packet in=lo tcp 127.0.0.1:4242 > 127.0.0.1:25 syn => accept 100
#: packet in=em0 udp [::1]:53 > [2001:db8::1]:53 => drop 500
# The common head of the stock script, and "open".
fwcmd="/sbin/ipfw"
case ${firewall_quiet} in
[Yy][Ee][Ss]) fwcmd="/sbin/ipfw -q" ;;
esac
setup_loopback() {
	${fwcmd} add 100 pass all from any to any via lo
	${fwcmd} add 200 deny all from any to 127.0.0.0/8
	${fwcmd} add 300 deny ip from 127.0.0.0/8 to any
	if [ "$ipv6_available" != 0 ]; then
		${fwcmd} add 400 deny all from any to ::1
		${fwcmd} add 500 deny all from ::1 to any
	fi
}
${fwcmd} -f flush
setup_loopback
# Neighbour discovery
${fwcmd} add pass ipv6-icmp from :: to ff02::/16
${fwcmd} add pass ipv6-icmp from fe80::/10 to fe80::/10
${fwcmd} add pass ipv6-icmp from fe80::/10 to ff02::/16
${fwcmd} add pass ipv6-icmp from any to any icmp6types 1
${fwcmd} add pass ipv6-icmp from any to any icmp6types 2,135,136
${fwcmd} add 65000 pass all from any to any
