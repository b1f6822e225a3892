#!/bin/sh
#: exit 3
#: apply 3
ipfw -q -f flush
ipfw -q add 100 fwd 127.0.0.1,3128 tcp from 192.168.0.0/24 to any 80 in via em1
ipfw -q add 200 allow ip from any to any
