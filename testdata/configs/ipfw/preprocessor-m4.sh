#!/bin/sh
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 200
# A file through a preprocessor.
f=/tmp/weir-ipfw-pre.$$
cat > $f <<'RULES'
add 100 allow ip from any to any via LOOP
add 200 allow tcp from any to any SSH in setup
add 300 allow ip from any to any out
RULES
ipfw -q -p sed -e s/LOOP/lo/ -e s/SSH/22/ $f
status=$?
rm -f $f
exit $status
