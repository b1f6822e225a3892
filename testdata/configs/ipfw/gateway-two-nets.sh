#!/bin/sh
#: apply 0
#: local em0=198.51.100.2/24
#: local em1=192.168.1.1/24
#: local em2=192.168.2.1/24
#: packet in=em1 out=em2 tcp 192.168.1.9:1 > 192.168.2.9:80 syn => accept 400
#: packet in=em2 out=em1 tcp 192.168.2.9:1 > 192.168.1.9:80 syn => drop 420
#: packet in=em1 out=em0 tcp 192.168.1.9:1 > 8.8.8.8:80 syn => accept 500
LAN=em1; DMZ=em2; WAN=em0
LAN_NET=192.168.1.0/24; DMZ_NET=192.168.2.0/24
ipfw() { command ipfw -q "$@"; }
ipfw -f flush
ipfw add 100 allow ip from any to any via lo
ipfw add 200 check-state
ipfw add 300 deny ip from any to any not verrevpath in via $WAN
ipfw add 400 allow tcp from $LAN_NET to $DMZ_NET in recv $LAN setup keep-state
ipfw add 410 allow tcp from $LAN_NET to $DMZ_NET out recv $LAN xmit $DMZ setup keep-state
ipfw add 420 deny log ip from $DMZ_NET to $LAN_NET
ipfw add 500 allow ip from $LAN_NET,$DMZ_NET to any keep-state
ipfw add 600 allow icmp from any to me icmptypes 8 keep-state
ipfw add 65534 deny ip from any to any
