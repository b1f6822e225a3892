#!/bin/sh
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 200
ext_if="em0"
ext_ip=$(ifconfig $ext_if | awk '$1 == "inet" { print $2; exit }')
[ -n "$ext_ip" ] || { echo "no address" >&2; exit 1; }
ipfw -q -f flush
ipfw -q add 100 deny ip from ${ext_ip} to any in recv ${ext_if}
ipfw -q add 200 allow tcp from any to ${ext_ip} 22 in recv ${ext_if} setup keep-state
ipfw -q add 300 allow ip from ${ext_ip} to any out xmit ${ext_if} keep-state
