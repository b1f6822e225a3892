# A head that is quick ends the search where no member matches.
#: packet in on xl0 tcp 192.0.2.1,1000 192.0.2.2,80 S => pass
#: packet in on xl0 tcp 192.0.2.3,1000 192.0.2.2,80 A => block
#: packet in on xl0 tcp 192.0.2.1,1000 192.0.2.2,80 A => pass
#: packet in on xl0 udp 192.0.2.1,1000 192.0.2.2,80 => pass
	block in quick proto tcp from any to any head 100
	pass in quick proto tcp from any to any flags S keep state group 100
	pass in all
