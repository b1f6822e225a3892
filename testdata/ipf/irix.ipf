block in quick on ec0 from any to any with ipopts
block in quick on ec0 proto tcp from any to any with short
pass out quick on ec0 proto tcp from 192.0.2.33/32 to any flags S/SA keep state
pass out quick on ec0 proto udp from 192.0.2.33/32 to any port = domain keep state
block in quick on ec0 from localhost to any
block in on ec0 all
