skip 2 in from 192.0.2.0/24 to any
block in quick from any to 198.51.100.1
block in quick from any to 198.51.100.2
pass in all
