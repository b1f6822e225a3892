pass in quick proto udp from any port = 123 to any port = 123 keep state
pass out quick proto udp from any to 192.0.2.123/32 port = 123 keep state (age 30/10)
pass in proto icmp from any to any icmp-type timest
pass in proto icmp from any to any icmp-type timestrep code 0
