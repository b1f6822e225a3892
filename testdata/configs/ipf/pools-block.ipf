# Tables by name, and one written in the rule.
#: packet in on bge0 tcp 192.0.2.5,1000 10.0.0.1,22 S => block
#: packet in on bge0 tcp 192.0.2.200,1000 10.0.0.1,25 S => pass
#: packet in on bge0 tcp 203.0.113.4,1000 10.0.0.1,22 S => pass
#: packet in on bge0 tcp 203.0.113.6,1000 10.0.0.1,22 S => block return-rst
#: packet in on bge0 udp 10.7.1.1,1000 10.0.0.1,53 => pass
#: packet in on bge0 udp 10.7.9.1,1000 10.0.0.1,53 => block
#: packet in on bge0 icmp 203.0.113.4 10.0.0.1 echo => nomatch
block in log quick on bge0 from pool/bad to any
pass in quick on bge0 proto tcp from hash/admins to any port = 22 flags S keep state
pass in quick on bge0 proto tcp from !pool/bad to any port = 25 flags S keep state
pass in quick on bge0 from pool=(10.7.0.0/16, !10.7.9.0/24) to any
block return-rst in on bge0 proto tcp all
block in on bge0 proto udp all
