block in quick all with short
block in log quick all with ipopts
block in log on xl0 all head 100
block out log on xl0 all head 150
block in on xl1 all head 200
block out on xl1 all head 250

block in log quick from 127.0.0.0/8 to any group 100
block in log quick from any to 127.0.0.0/8 group 100
block in log quick from 10.0.0.0/8 to any group 100
pass in quick proto tcp from any to 203.0.113.5/32 port = smtp flags S/SA keep state group 100
pass in quick proto tcp from any to 203.0.113.5/32 port = www flags S/SA keep state group 100
block return-rst in log quick proto tcp from any to any port = auth group 100

pass out quick proto tcp/udp from any to any keep state keep frags group 150
pass out quick proto icmp from any to any keep state group 150

pass in quick from 203.0.113.0/28 to any keep state group 200
pass out quick from any to 203.0.113.0/28 group 250
