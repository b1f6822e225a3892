#!/bin/sh
#: packet in=em0 tcp 203.0.113.77:1 > 192.0.2.1:22 syn => drop 55000
ipfw -q table 22 create 2>/dev/null
ipfw add 55000 deny ip from 'table(22)' to any
ipfw add 56000 allow ip from any to any
ipfw table 22 add 203.0.113.77 2> /dev/null
ipfw table 22 add 203.0.113.77 || true
ipfw -q table 22 add 203.0.113.77
