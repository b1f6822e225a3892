pass out quick proto tcp from 192.0.2.25 to any
block out quick proto tcp from any to any port = 25
