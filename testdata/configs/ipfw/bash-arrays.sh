#!/usr/local/bin/bash
#: local em0=192.0.2.1/24
#: packet in=em0 tcp 10.1.1.1:1 > 192.0.2.1:22 syn => drop 100
#: packet in=em0 tcp 8.8.8.8:1 > 192.0.2.1:22 syn => accept 500
#: packet in=em0 tcp 9.9.9.9:1 > 192.0.2.1:23 syn => drop 61000
#: packet in=em0 udp 9.9.9.9:1 > 192.0.2.1:23 => drop 62000
set -u
IPFW=${IPFW:-/sbin/ipfw}
declare -a nets=(10.0.0.0/8 192.168.0.0/16)
[ "$(ifconfig -lu)" = "em0 lo0" ] || exit 3
[ "$(ifconfig -l ether)" = em0 ] || exit 4
my=$(ifconfig em0 inet | awk '/inet /{print $2}')
kldstat -q -m ipfw || kldload ipfw
command -v ipfw > /dev/null || exit 5
$IPFW -f -q flush
for n in "${nets[@]}"; do $IPFW -q add deny ip from "$n" to any in recv em0; done
((i = 500)); $IPFW -q add $i allow tcp from any to $my dst-port 22 setup || exit 6
[ "$($IPFW -a l | wc -l)" -eq 4 ] || exit 7
env ipfw -q add 60000 count ip from any to any
printf '9.9.9.9\n2.2.2.2\n' | xargs -n1 -I{} ipfw -q add 61000 deny tcp from {} to any
echo add 62000 deny udp from any to any | ipfw -q /dev/stdin
trap 'ipfw -q add 63000 count ip from any to any' EXIT
