block in quick from !192.0.2.0/24 to 192.0.2.10
block in quick proto tcp from !10.0.0.0/8 to any port = 3306
block out quick proto udp from any to !198.51.100.0/24 port = 514
