#!/bin/sh
#: exit 3
#: apply 3
cmd="ipfw -q add"
pif=igb0
ks="keep-state"
good_tcpo="22,25,37,53,80,443,110"
skip="skipto 1000"
ipfw -q -f flush
ipfw -q nat 1 config if $pif same_ports unreg_only reset redirect_port tcp 192.168.1.10:8080 80
ipfw disable one_pass
$cmd 005 allow all from any to any via igb1
$cmd 010 allow all from any to any via lo0
$cmd 099 reass all from any to any in
$cmd 100 nat 1 ip from any to any in via $pif
$cmd 101 check-state
$cmd 120 $skip udp from any to any 53 out via $pif $ks
$cmd 125 $skip tcp from any to any $good_tcpo out via $pif setup $ks
$cmd 130 $skip icmp from any to any out via $pif $ks
$cmd 300 deny all from 192.168.0.0/16 to any in via $pif
$cmd 420 allow tcp from any to me 22 in via $pif setup limit src-addr 2
$cmd 999 deny log all from any to any
$cmd 1000 nat 1 ip from any to any out via $pif
$cmd 1001 allow ip from any to any
