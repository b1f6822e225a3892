pass in quick proto tcp from any to any port = 80 flags S keep state (strict)
pass in quick proto tcp from any to any port = 81 flags S keep state (loose, nolog)
pass in quick proto udp from any to any port = 53 keep state (limit 100, no-icmp-err)
pass in quick proto tcp from any to any port = 82 keep state (age 3600)
pass in quick proto tcp from any to any port = 83 keep state (age 3600/30,limit 10,max-srcs 5)
pass in quick proto tcp from any to any port = 84 keep state (newisn)
pass in quick proto udp from any to any port = 85 keep state age 10
pass in quick proto udp from any to any keep state (icmp-head icmps) keep frags
block in quick proto icmp all group icmps
