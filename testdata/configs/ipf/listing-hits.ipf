# What `ipfstat -oh` printed: the hits in front are read as collections, which sort the list.
#: packet out on em0 tcp 192.0.2.1,1000 198.51.100.1,25 S => block
#: packet out on em0 tcp 192.0.2.1,1000 198.51.100.1,80 S => pass
#: packet out on em0 udp 192.0.2.1,1000 198.51.100.1,53 => pass
#: packet out on em0 udp 192.0.2.1,1000 198.51.100.1,99 => block
900 pass out quick on em0 proto tcp from any to any port = 25
12 pass out on em0 from any to any
45 block out on em0 proto udp from any to any
7 pass out quick on em0 proto udp from any to any port = 53
5 block out quick on em0 proto tcp from any to any port = 25
