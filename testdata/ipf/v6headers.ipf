block in quick inet6 all with v6hdr routing
pass in quick inet6 from any to any with v6hdr esp,ah
block in inet6 proto tcp from any to any with v6hdr frag
pass in quick inet6 proto ipv6-icmp all icmp-type { routersol routeradvert neighborsol neighadvert }
block in inet6 all with v6hdrs hopopts
