# addresses that were noticed
block in quick from 198.51.100.0/24 to any
block in quick from 203.0.113.7 to any
block in quick from 192.0.2.128/25 to any
pass in all
pass out all
