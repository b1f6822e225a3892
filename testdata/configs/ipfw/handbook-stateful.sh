#!/bin/sh
#: local dc0=192.0.2.1/24
#: packet in=xl0 tcp 10.0.10.9:1 > 8.8.8.8:80 syn => accept 5
#: packet out=dc0 tcp 192.0.2.1:1 > 8.8.8.8:80 syn => accept 200
#: packet out=dc0 tcp 192.0.2.1:1 > 8.8.8.8:8081 syn => drop 299
#: packet in=dc0 tcp 8.8.8.8:1 > 192.0.2.1:22 syn => accept 410
#: packet in=dc0 tcp 10.1.1.1:1 > 192.0.2.1:22 syn => drop 302
#: packet in=dc0 tcp 8.8.8.8:1 > 192.0.2.1:113 syn => drop 315
#: packet in=dc0 tcp 8.8.8.8:1 > 192.0.2.1:9 flags=ack => drop 332
ipfw -q -f flush
cmd="ipfw -q add"
pif="dc0"
$cmd 00005 allow all from any to any via xl0
$cmd 00010 allow all from any to any via lo0
$cmd 00101 check-state
$cmd 00110 allow tcp from any to 198.51.100.53 53 out via $pif setup keep-state
$cmd 00111 allow udp from any to 198.51.100.53 53 out via $pif keep-state
$cmd 00200 allow tcp from any to any 80 out via $pif setup keep-state
$cmd 00220 allow tcp from any to any 443 out via $pif setup keep-state
$cmd 00250 allow icmp from any to any out via $pif keep-state
$cmd 00299 deny log all from any to any out via $pif
$cmd 00301 deny all from 192.168.0.0/16 to any in via $pif
$cmd 00302 deny all from 10.0.0.0/8 to any in via $pif
$cmd 00310 deny icmp from any to any in via $pif
$cmd 00315 deny tcp from any to any 113 in via $pif
$cmd 00320 deny tcp from any to any 137 in via $pif
$cmd 00330 deny all from any to any frag in via $pif
$cmd 00332 deny tcp from any to any established in via $pif
$cmd 00400 allow tcp from any to me 80 in via $pif setup limit src-addr 2
$cmd 00410 allow tcp from any to me 22 in via $pif setup limit src-addr 2
$cmd 00499 deny log all from any to any in via $pif
$cmd 00999 deny log all from any to any
