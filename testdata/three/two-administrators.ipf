pass in quick proto tcp from 192.0.2.4 to any port = 22
pass in quick proto tcp from 192.0.2.5 to any port = 22
pass in quick proto tcp from 192.0.2.4 to any port = 8006
block in quick proto tcp from any to any port = 22
block in quick proto tcp from any to any port = 8006
