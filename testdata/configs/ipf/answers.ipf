# How blocked packets are answered; the word is told also where nothing can be sent.
#: packet in on dc0 tcp 198.51.100.1,1000 203.0.113.1,113 S => block return-rst
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,137 => block return-icmp
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,138 => block return-icmp
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,33434 => nomatch
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,33435 => block return-icmp-as-dest
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,33690 => nomatch
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,139 => block return-icmp-as-dest
#: packet in on dc0 tcp 192.0.2.4,1000 203.0.113.1,80 S => block return-icmp
#: packet in on dc0 tcp 192.0.2.9,1000 203.0.113.1,22 S => pass
#: packet in on dc0 udp 198.51.100.1,1000 203.0.113.1,500 => block return-rst
#: packet out on dc0 tcp 203.0.113.1,1000 198.51.100.1,25 S => block return-rst
block return-rst in quick on dc0 proto tcp from any to any port = 113
block return-icmp in quick on dc0 proto udp from any to any port = 137
block return-icmp(host-unr) in quick on dc0 proto udp from any to any port = 138
block return-icmp-as-dest in quick on dc0 proto udp from any to any port 33434><33690
block return-icmp-as-dest (port-unr) in quick on dc0 proto udp from any to any port = 139
block return-icmp(filter-prohib) in on dc0 proto tcp from 192.0.2.0/24 to any
block return-rst out quick on dc0 proto tcp from any to any port = 25
block return-rst in on dc0 proto udp from any to any port = 500
pass in on dc0 proto tcp from 192.0.2.8/29 to any port = 22
