pass in quick on le0,ppp0 out-via ppp0,le0 proto tcp from any to any flags S keep state
pass in on le0 out-via ppp0 from 10.0.0.0/8 to any
pass out quick on ppp0 in-via le0 proto udp all keep state
