pass in quick on lo0 from ::1 to ::1
pass in quick proto ipv6-icmp from fe80::/10 to ff02::/16
pass in quick proto ipv6-icmp from any to 2001:db8:0:1::10/128 icmp-type echo keep state
pass in quick proto tcp from any to 2001:db8:0:1::10 port = ssh flags S keep state
block in log from any to 2001:db8:0:1::/64
