#!/bin/sh -
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => drop 1000
#: packet in=em0 tcp 198.51.100.1:1 > 192.0.2.1:22 syn => accept 2002
#: packet in=em0 tcp 8.8.8.8:1 > 192.0.2.1:25 syn => accept 3001
# Bad hosts, good hosts, ports.
IPF="ipfw -q add"
ipfw -q -f flush
bad="203.0.113.9 203.0.113.10 203.0.113.11"
for h in ${bad}; do
  $IPF 1000 deny ip from $h to any
done
i=2002
while [ $i -lt 2005 ]; do
  $IPF $i allow tcp from 198.51.100.$((i - 2001)) to me 22
  i=$(( i + 1 ))
done
i=3000
for p in 80 25 443; do
  $IPF $i allow tcp from any to me $p setup keep-state
  i=`expr $i + 1`
done
$IPF 65000 deny all from any to any
