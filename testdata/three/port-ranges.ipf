block in quick proto tcp from any to any port 5999 >< 6064
block in quick proto udp from any to any port 33434:33523
block in quick proto tcp from any port < 20 to any
pass in quick proto udp from any port = 53 to any port > 1023
block in quick proto udp from any to any port >= 1024
