block in quick proto udp from any to any port 136 >< 140
block in quick proto tcp from any to any port = 135
block in quick proto tcp from any to any port = 139
block in quick proto tcp from any to any port = 445
block in quick from any to 255.255.255.255
