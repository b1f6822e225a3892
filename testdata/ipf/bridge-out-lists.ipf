# both lists of a router: what goes out is asked again
block in quick on em0 from any to 192.0.2.255/32
block out quick on em1 proto tcp from any to any port = 445
block out quick on em1 proto udp from any to any port 135:139
pass in on em0 all
pass out on em1 all
count in on em0 proto tcp all
count out on em1 proto tcp all
skip 1 out on em1 proto icmp all
block out on em1 from any to 10.99.0.0/16
