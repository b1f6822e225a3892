# Both families in one list, as 5.1 has them.
#: packet in6 on net0 icmpv6 fe80::1 2001:db8:1::10 neighborsol => pass
#: packet in6 on net0 tcp 2001:db8:5::7,4000 2001:db8:1::10,22 S => pass
#: packet in6 on net0 tcp 2001:db8:6::7,4000 2001:db8:1::10,22 S => block
#: packet in6 on net0 tcp 2001:db8:6::7,4000 2001:db8:1::10,443 S => pass
#: packet out6 on net0 tcp 2001:db8:1::10,443 2001:db8:6::7,4000 SA => pass
#: packet out6 on net0 udp 2001:db8:1::10,5000 2001:db8:6::53,53 => pass
#: packet in6 on net0 udp 2001:db8:6::53,53 2001:db8:1::10,5000 => pass
#: packet in on net0 tcp 198.51.100.1,4000 192.0.2.1,22 S => block
#: packet in on net1 tcp 198.51.100.1,4000 192.0.2.1,22 S => nomatch
pass in quick on lo0 from ::1 to ::1
pass in quick proto ipv6-icmp from any to any icmp-type neighborsol
pass in quick proto ipv6-icmp from any to any icmp-type neighadvert
pass in quick on net0 proto tcp from 2001:db8:5::/48 to 2001:db8:1::10 port = 22 flags S keep state
pass in quick on net0 proto tcp from any to 2001:db8:1::10 port = 443 flags S keep state
block in log quick on net0 inet6 all
pass out quick on net0 inet6 proto tcp from any to any flags S keep state
pass out quick on net0 inet6 proto udp from any to any keep state
block in quick on net0 inet proto tcp all
