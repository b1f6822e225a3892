count in on qfe0 from 10.0.0.0/8 to any
count in on qfe0 proto tcp from any to any port = 80
count out on qfe0 from any to 10.0.0.0/8
count out on qfe0 proto udp from any port = 53 to any
pass in all
pass out all
