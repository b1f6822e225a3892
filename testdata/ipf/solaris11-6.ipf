pass in quick on net0 proto ipv6-icmp from any to any icmp-type neighborsol
pass in quick proto ipv6-icmp all icmp-type neighadvert
pass in quick on net0 inet6 proto tcp from 2001:db8::/32 to any port = 22 flags S keep state
block in quick inet6 from ::/0 to ff02::1:2
pass in quick on net0 family inet6 proto udp from fe80::/10 port = 547 to any port = 546
block in log on net0 inet6 all
