block in all
pass in quick on lo0 all
pass in quick proto tcp from 192.0.2.0/24 to any port = 22
pass in quick proto tcp from 198.51.100.4 to any port = 22
pass out all
