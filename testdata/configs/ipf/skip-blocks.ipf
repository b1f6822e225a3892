# `skip` counts rules of its own direction only.
#: packet in on sis0 tcp 192.0.2.1,1000 10.0.0.1,80 S => pass
#: packet in on sis0 tcp 192.0.2.1,1000 10.0.0.1,80 A => block
#: packet in on sis0 tcp 192.0.2.1,1000 10.0.0.1,22 S => block
#: packet in on sis0 tcp 10.70.1.1,1000 10.0.0.1,22 S => pass
#: packet in on sis0 tcp 10.70.1.1,1000 10.0.0.1,23 S => pass
#: packet in on sis0 udp 192.0.2.1,1000 10.0.0.1,23 => pass
#: packet out on sis0 udp 10.0.0.1,1000 192.0.2.1,23 => pass
skip 1 in on sis0 proto tcp all flags S/SA
block in quick on sis0 proto tcp all
skip 2 in on sis0 from 10.70.0.0/16 to any
block in quick on sis0 proto tcp from any to any port = 22
pass out all
block in quick on sis0 proto tcp from any to any port = 23
pass in on sis0 all
