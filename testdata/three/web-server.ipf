block in all
pass in proto icmp from any to 192.0.2.80 icmp-type echo
pass in proto tcp from any to 192.0.2.80 port = 80
pass in proto tcp from any to 192.0.2.80 port = 443
pass in proto udp from any to 192.0.2.80 port = 443
