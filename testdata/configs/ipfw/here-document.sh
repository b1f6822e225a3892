#!/bin/sh
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 200
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:23 syn => drop 65535
cat > /tmp/weir-ipfw-here.$$ <<RULES
# made by the script
flush
add 100 check-state
add 200 allow tcp from any to any 22 in setup keep-state   # ssh
add 300 allow ip from any to any out keep-state
RULES
ipfw -q -f /tmp/weir-ipfw-here.$$
rm -f /tmp/weir-ipfw-here.$$
