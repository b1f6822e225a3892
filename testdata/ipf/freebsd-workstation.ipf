# workstation, dialup or dsl; dc0 is outside
pass in quick on lo0 all
pass out quick on lo0 all

pass out quick on dc0 proto tcp from any to 198.51.100.53 port = 53 flags S keep state
pass out quick on dc0 proto udp from any to 198.51.100.53 port = 53 keep state
pass out quick on dc0 proto udp from any to any port = 67 keep state
pass out quick on dc0 proto tcp from any to any port = 80 flags S keep state
pass out quick on dc0 proto tcp from any to any port = 443 flags S keep state
pass out quick on dc0 proto icmp from any to any icmp-type 8 keep state
block out log first quick on dc0 all

block in quick on dc0 from 192.168.0.0/16 to any    #RFC 1918 private IP
block in quick on dc0 from 172.16.0.0/12 to any
block in quick on dc0 from 10.0.0.0/8 to any
block in quick on dc0 from 127.0.0.0/8 to any
block in quick on dc0 from 0.0.0.0/8 to any
block in quick on dc0 from 169.254.0.0/16 to any
block in quick on dc0 from 192.0.2.0/24 to any
block in quick on dc0 from 224.0.0.0/3 to any
block in quick on dc0 all with frags
block in quick on dc0 proto tcp all with short
block in quick on dc0 all with opt lsrr
block in quick on dc0 all with opt ssrr
block in log first quick on dc0 proto tcp from any to any flags FUP
block in quick on dc0 all with ipopts
block in quick on dc0 proto icmp all icmp-type 8
block in quick on dc0 proto tcp from any to any port = 113
block in log first quick on dc0 proto tcp/udp from any to any port = 137
block in log first quick on dc0 proto tcp/udp from any to any port = 138
pass in quick on dc0 proto udp from 198.51.100.1 to any port = 68 keep state
pass in quick on dc0 proto tcp from any to any port = 22 flags S keep state
block in log first quick on dc0 all
