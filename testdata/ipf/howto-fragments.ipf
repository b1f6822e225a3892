pass in quick on xl0 proto udp from 20.20.20.0/24 to any port = 2049 keep state keep frags
pass in quick on xl0 all with frag-body keep frags
block in quick on xl0 all with not frag, short
pass out quick on xl0 proto icmp from any to any keep frags (strict)
