# Tabs, capitals, rules over several lines with and without a stroke, two on one line.
#: packet in on ed0 tcp 10.60.1.1,1000 10.0.0.1,22 S => pass
#: packet in on ed0 tcp 10.60.1.1,1001 10.0.0.1,22 A => block
#: packet in on ed0 tcp 10.61.1.1,1000 10.0.0.1,22 S => block
#: packet in on ed0 tcp 10.60.1.1,1000 10.0.0.1,23 S => block
#: packet in on ed0 udp 10.60.1.1,1000 10.0.0.1,23 => pass
#: packet out on ed0 udp 10.0.0.1,1000 10.60.1.1,23 => pass
pass	in	quick	on	lo0	all ; pass out quick on lo0 all
PASS IN QUICK ON ed0 PROTO TCP
	FROM 10.60.0.0/16 TO any \
	PORT = 22
	flags S/SA keep state
block in	\
	log quick on ed0 proto tcp from any
		to any port = 23 # telnet
block in on ed0 proto tcp from
	any to any   # the rest
pass in quick on ed0 proto udp all
pass out on ed0 all # no newline follows