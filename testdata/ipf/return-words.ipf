block return-rst in quick proto tcp from any to any port = 113
block return-icmp in quick proto udp from any to any port = 69
block return-icmp (net-unr) in quick from 10.1.0.0/16 to any
block return-icmp(3) in quick proto udp from any to any port = 70
block return-icmp-as-dest(port-unr) in quick proto udp from any to any port = 71
block return-icmp-as-dest (host-prohib) in log quick proto udp all
