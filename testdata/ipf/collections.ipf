200 block in log all
100 pass in quick on en0 proto tcp from any to any port = 22
100 pass in quick on en0 proto udp from any to any port = 123
@1 block in quick from 192.0.2.66/32 to any
