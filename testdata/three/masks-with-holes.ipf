block in quick from 10.0.0.1/255.0.0.255 to any
block in quick from any to 192.168.0.0/255.255.1.0
