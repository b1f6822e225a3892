block in from 10.0.0.0/255.0.0.0 to any
block in from 10.0.0.0/0xff000000 to any port = 7
block in from 172.16/12 to any
block in from 192.168/16 to 10/8
block in from 10.1.2.3/8 to any port = 9
block in from 10.1.2.3 mask 0xffff0000 to any
block in from any to 192.0.2.1 mask 255.255.255.255 port = 10
block in from 10.1.1.0/255.255.0.255 to any
