skip 3 in proto tcp all
block in quick proto udp from any to any port = 514
pass in quick proto udp all
pass in quick proto icmp all
pass in quick proto tcp from any to any port = 22 flags S/SA keep state
block in all
