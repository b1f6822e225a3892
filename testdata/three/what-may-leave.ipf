block out all
pass out from any to 192.0.2.0/24
pass out proto icmp from any to any icmp-type 8
pass out proto tcp from any to any port = 22
pass out proto tcp from any to any port = 80
pass out proto tcp from any to any port = 443
pass out proto udp from any to any port = 53
pass out proto udp from any to any port = 123
