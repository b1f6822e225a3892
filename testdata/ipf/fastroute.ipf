pass in quick on e0 to e1:10.1.1.1 from 10.0.0.0/8 to any
pass in quick on e0 fastroute proto tcp from any to any
pass in on e0 dup-to e2:192.0.2.9 from any to any
pass in quick on e0 reply-to e0:10.0.0.1 proto tcp from any to any port = 80 flags S keep state
pass in quick on e0 route-to e3 from 10.9.0.0/16 to any
