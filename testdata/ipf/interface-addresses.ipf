pass in quick on fxp0 proto tcp from any to fxp0/32 port = 22 flags S keep state
block in quick on fxp0 from (fxp1)/network to any
block in quick on fxp0 from any to fxp0/broadcast
pass out quick on fxp0 from fxp0/32 to any keep state
pass in quick on tun0 from tun0/peer to (tun0)
