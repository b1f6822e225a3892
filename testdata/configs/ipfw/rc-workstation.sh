#!/bin/sh
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => drop 3000
#: packet in=em0 tcp 192.0.2.9:1 > 192.0.2.1:22 syn => accept 1700
#: packet in=em0 tcp 198.51.100.7:1 > 192.0.2.1:111 syn => accept 1900
#: packet in=em0 icmp 203.0.113.9 > 192.0.2.1 icmp=8 => accept 1400
#: packet in=em0 udp 203.0.113.9:137 > 192.0.2.255:137 => drop 2100
#: packet out=em0 tcp 192.0.2.1:1 > 203.0.113.9:443 syn => accept 700
firewall_myservices="22/tcp 80/tcp"
firewall_allowservices="192.0.2.0/24"
firewall_trusted="198.51.100.7"
firewall_logdeny=YES
firewall_nologports="135-139,445 1026,1027 1433,1434"
fwcmd="/sbin/ipfw -q"
$fwcmd -f flush
$fwcmd add 100 pass all from any to any via lo
$fwcmd add 200 deny all from any to 127.0.0.0/8
$fwcmd add 300 deny ip from 127.0.0.0/8 to any
$fwcmd add 500 check-state
$fwcmd add pass tcp from me to any established
$fwcmd add pass tcp from me to any setup keep-state
$fwcmd add pass udp from me to any keep-state
$fwcmd add pass icmp from me to any keep-state
$fwcmd add pass ipv6-icmp from me to any keep-state
# DHCP
$fwcmd add pass udp from 0.0.0.0 68 to 255.255.255.255 67 out
$fwcmd add pass udp from any 67 to me 68 in
$fwcmd add pass udp from any 67 to 255.255.255.255 68 in
$fwcmd add pass icmp from any to any icmptype 8
$fwcmd add pass icmp from any to any icmptype 3,4,11
$fwcmd add pass ipv6-icmp from any to any icmp6type 3
for source in $firewall_allowservices; do
	for service in $firewall_myservices; do
		port=${service%/*}; proto=${service#*/}
		$fwcmd add pass $proto from $source to me $port
	done
done
for host in $firewall_trusted; do
	$fwcmd add pass ip from $host to me
done
$fwcmd add 2000 count ip from any to any
for ports in $firewall_nologports; do
	$fwcmd add deny { tcp or udp } from any to any $ports in
done
$fwcmd add 2300 deny ip from any to 255.255.255.255
$fwcmd add deny ip from any to 224.0.0.0/24 in
$fwcmd add deny udp from any to any 520 in
$fwcmd add deny tcp from any 80,443 to any 1024-65535 in
case $firewall_logdeny in
[Yy][Ee][Ss]) $fwcmd add 3000 deny log logamount 500 ip from any to any ;;
esac
