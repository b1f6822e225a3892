block in all
pass in quick on lo0 from 127.0.0.0/8 to any
block in quick from 127.0.0.0/8 to any
pass in proto tcp/udp from any to any port = 53
pass in proto udp from any port = 53 to any port >= 1024
pass in proto tcp from any port = 53 to any flags A/A
