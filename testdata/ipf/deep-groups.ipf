block in all head 1
pass in from 10.0.0.0/8 to any head 2 group 1
block in proto udp all head 3 group 2
pass in quick proto udp from any to any port = 53 group 3
log level local1.info in proto udp from any to any port = 161 group 3
pass in proto tcp all group 2
count in all head acc
count in proto tcp from any to any port = 80 group acc
count in proto udp all group acc
