# What `ipfstat -ion` printed, given back: `@n` is a place in the list of its direction.
#: packet in on net0 tcp 198.51.100.1,1000 192.0.2.40,22 S => pass
#: packet in on net0 tcp 198.51.100.1,1000 192.0.2.40,80 S => block return-rst
#: packet in on net0 udp 198.51.100.1,1000 192.0.2.40,80 => block
#: packet out on net0 tcp 192.0.2.40,1000 198.51.100.1,80 S => pass
#: packet out on net0 udp 192.0.2.40,1000 198.51.100.1,80 => block
#: packet out on lo0 udp 127.0.0.1,1000 127.0.0.1,80 => pass
@1 pass out quick on lo0 from any to any
@2 pass out quick on net0 proto tcp from any to any flags S/FSRPAU keep state keep frags
@3 block out log on net0 from any to any
@1 pass in quick on lo0 from any to any
@2 block in log quick from any to any with short
@3 pass in quick on net0 proto tcp from any to 192.0.2.40/32 port = 22 flags S/FSRPAU keep state (strict) # count 3
@4 block return-rst in log quick on net0 proto tcp from any to any
@5 block in on net0 from any to any
