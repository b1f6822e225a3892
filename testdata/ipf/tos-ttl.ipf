block in quick from any to any with lowttl
block in tos 0x08 from any to any
pass in tos 16 proto tcp from any to any
pass in quick ttl 255 proto udp from any to 224.0.0.18/32
pass in tos { 0x10 0x20 } ttl { 1, 64 } proto tcp all
