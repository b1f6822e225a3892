# A global zone with a web zone and a database that only the web zone may ask.
#: packet in on e1000g0 tcp 198.51.100.5,2000 192.0.2.21,443 S => pass
#: packet out on e1000g0 tcp 192.0.2.21,443 198.51.100.5,2000 SA => pass
#: packet in on e1000g0 tcp 198.51.100.5,2000 192.0.2.22,3306 S => block return-rst
#: packet in on e1000g0 tcp 192.0.2.21,2000 192.0.2.22,3306 S => pass
#: packet in on e1000g0 icmp 198.51.100.5 192.0.2.21 echo => pass
#: packet in on e1000g0 icmp 198.51.100.5 192.0.2.21 timest => block
#: packet in on e1000g0 udp 198.51.100.5,53 192.0.2.21,4000 => block
#: packet out on e1000g0 udp 192.0.2.21,4000 198.51.100.5,53 => pass
#: packet in on e1000g0 udp 198.51.100.5,53 192.0.2.21,4000 => pass
#: packet out on e1000g0 tcp 192.0.2.21,5000 198.51.100.5,25 A => block
#: packet in on e1000g0 tcp 198.51.100.5,2001 192.0.2.21,80 S opt rr => block
pass in quick on lo0 all
pass out quick on lo0 all
block in log quick all with short
block in log quick all with ipopts
# zone web
pass in quick on e1000g0 proto tcp from any to 192.0.2.21/32 port=80 flags S keep state keep frags
pass in quick on e1000g0 proto tcp from any to 192.0.2.21/32 port = 443 flags S keep state keep frag
# zone db
pass in quick proto tcp from 192.0.2.21/32 to 192.0.2.22/32 port=3306 flags S keep state
block return-rst in log quick proto tcp from any to 192.0.2.22/32
pass out quick on e1000g0 proto tcp from any to any flags S/SA keep state
pass out quick on e1000g0 proto udp from any to any keep state
pass out quick on e1000g0 proto icmp from any to any keep state
block in log on e1000g0 all
block out on e1000g0 all
pass in quick proto icmp all icmp-type 8 code 0
