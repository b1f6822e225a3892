# en0 to the office, en1 to the store
block in log quick on en0 from any to any with opt lsrr
block in log quick on en0 from any to any with opt ssrr
pass in quick on en0 proto tcp from 10.4.0.0/255.255.0.0 to any port = 22 flags S/SA keep state
pass in quick on en0 proto tcp from 10.4.0.0/255.255.0.0 to any port = 1521 flags S/SA keep state keep frags
pass in quick on en1 from 10.5.0.0/255.255.255.0 to any keep state
pass out quick on en0 proto tcp/udp all keep state keep frags
pass out quick on en1 all keep state
block in log on en0 all
