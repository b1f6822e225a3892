block in quick on wan0 proto tcp from any to any flags S/FSRA
block in quick on wan0 proto udp from any to any port < 1024
