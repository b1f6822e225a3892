# Nothing is quick: the last rule that matches decides.
#: packet in on em0 tcp 203.0.113.1,99 192.0.2.5,80 S => pass
#: packet in on em0 tcp 10.1.1.1,99 192.0.2.5,80 S => block
#: packet in on em0 tcp 10.255.1.1,99 192.0.2.1,80 S => pass
#: packet in on em0 tcp 172.31.1.1,99 192.0.2.5,80 S => block
#: packet in on em0 tcp 172.32.1.1,99 192.0.2.5,80 S => pass
#: packet in on em0 tcp 192.168.77.1,99 192.0.2.5,80 S => block
#: packet in on em0 udp 203.0.113.1,99 192.0.2.5,136 => pass
#: packet in on em0 udp 203.0.113.1,99 192.0.2.5,137 => block
#: packet in on em0 udp 203.0.113.1,99 192.0.2.5,140 => pass
#: packet in on em0 udp 198.51.100.4,99 192.0.2.5,161 => pass
#: packet in on em0 udp 203.0.113.4,99 192.0.2.5,161 => block
#: packet out on em0 tcp 192.0.2.5,99 203.0.113.1,25 S => pass
#: packet out on em0 tcp 192.168.9.1,99 203.0.113.1,25 S => block
#: packet in on em0 icmp 203.0.113.1 192.0.2.255 echo => block
#: packet in on em1 tcp 10.1.1.1,99 192.0.2.5,80 S => pass
pass in all
pass out all
count in on em0 proto tcp from any to any port = 25
block in log on em0 from 10.0.0.0/8 to any
block in log on em0 from 172.16/12 to any
block in log on em0 from 192.168.0.0 mask 255.255.0.0 to any
block in on em0 proto tcp/udp from any to any port 136 >< 140
block in on em0 proto udp from any to any port = 161
pass in on em0 proto udp from 198.51.100.0/24 to any port = 161
block out on em0 proto tcp from !192.0.2.0/24 to any port = 25
block in quick on em0 from any to 192.0.2.255
pass in on em0 from 10.255.0.0/16 to 192.0.2.1
