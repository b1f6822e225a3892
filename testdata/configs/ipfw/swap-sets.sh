#!/bin/sh
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 100
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:80 syn => drop 65000
# The old rules in set 0, new ones made in a disabled set, then exchanged.
ipfw -q add 100 deny tcp from any to any 22
ipfw -q set disable 18
ipfw -q add 100 set 18 allow tcp from any to any 22
ipfw -q add 65000 set 18 deny ip from any to any
ipfw -q set swap 18 0
ipfw -q delete set 18
ipfw -q set enable 18
ipfw set show
