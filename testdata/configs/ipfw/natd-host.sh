#!/bin/sh
#: exit 3
#: apply 3
# A gateway of about 2001 that translates with natd.
fwcmd="/sbin/ipfw"
$fwcmd -f flush
$fwcmd add 50 divert natd all from any to any via ed0
$fwcmd add 100 pass all from any to any via lo0
$fwcmd add pass tcp from any to any established
$fwcmd add pass tcp from 192.168.0.0/16 to any setup
$fwcmd add deny all from any to any
