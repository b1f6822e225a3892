block return-rst in quick proto tcp from any to any port = 113
block return-icmp(port-unr) in quick proto udp from any to any port = 111
