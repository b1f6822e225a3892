block in quick all with bad
block in quick all with bad-src
block in quick proto tcp all with oow
block in log quick proto tcp from any to any with short
block in quick from any to any with mcast
block in quick from any to any with bcast
block in quick on wi0 all with not mbcast, frag
pass in quick all with state
pass out quick all with nat
