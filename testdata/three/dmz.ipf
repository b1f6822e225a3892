block in all
pass in quick on lan0 all
pass in quick on dmz0 from 192.0.2.0/26 to any
pass in quick on wan0 proto tcp from any to 192.0.2.25 port = 25
pass in quick on wan0 proto udp from any to 192.0.2.53 port = 53
pass in quick on wan0 proto tcp from any to 192.0.2.53 port = 53
pass in quick on wan0 proto tcp from any to 192.0.2.80 port = 80
pass in quick on wan0 proto tcp from any to 192.0.2.80 port = 443
pass in quick on wan0 proto tcp from any to any flags A/A
block out quick on dmz0 proto tcp from any to any port = 23
