#!/bin/sh
#: apply any
# Bandwidth for a house.
fw="ipfw -q"
$fw -f flush
$fw -f pipe flush
$fw pipe 1 config bw 10Mbit/s queue 50 mask src-ip 0x000000ff
$fw pipe 2 config bw 50Mbit/s queue 100KB mask dst-ip 0x000000ff
$fw queue 1 config pipe 1 weight 60 mask src-ip 0xffffffff
$fw queue 2 config pipe 1 weight 40 red 0.002/10/30/0.1
$fw add 100 allow ip from any to any via lo
$fw add 200 pipe 1 ip from 192.168.0.0/24 to any out via em0
$fw add 210 pipe 2 ip from any to 192.168.0.0/24 in via em0
$fw add 300 queue 2 tcp from any to any 80
$fw add 65000 allow ip from any to any
