pass in quick on sk0 proto tcp from any to any flags S keep state head 10
block in quick from any to any port = 25 group 10
pass in on sk0 proto udp all keep state head 11 group 0
