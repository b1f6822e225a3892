pass in quick on ce0 proto tcp/udp from 10.20.0.0/16 to 10.20.1.1 port = sunrpc keep state
pass in quick on ce0 proto tcp/udp from 10.20.0.0/16 to 10.20.1.1 port = nfsd keep state keep frags
pass in quick on ce0 proto tcp/udp from 10.20.0.0/16 to 10.20.1.1 port = 4045 keep state
block return-icmp in log on ce0 proto udp from any to any
block in on ce0 all
