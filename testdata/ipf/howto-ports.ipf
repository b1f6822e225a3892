pass in quick on tun0 proto udp from any to 20.20.20.0/24 port = 53 keep state
pass in quick on tun0 proto udp from any to any port 33434><33690 keep state
pass in quick proto tcp from any port > 1023 to any port 20<>25
pass in proto tcp from any port gt 1023 to any port le 1024
pass in proto tcp from any port ne 25 to any port eq 110
pass in from any to any port != 79
block in proto udp from any port = ntp to any port = ntp
