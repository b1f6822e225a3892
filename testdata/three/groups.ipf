block in quick on wan0 all head 100
pass in quick proto tcp from any to 192.0.2.80 port = 80 group 100
pass in quick proto tcp from any to 192.0.2.25 port = 25 group 100
block in quick on lan0 all head 200
pass in quick from 192.168.1.0/24 to any group 200
