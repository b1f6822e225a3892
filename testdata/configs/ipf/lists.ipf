# Lists in the brackets of 5.1 and of 4.1.
#: packet in on bge0 tcp 10.1.9.9,1000 192.0.2.1,80 S => pass
#: packet in on bge0 tcp 10.2.9.9,1000 192.0.2.1,8010 S => pass
#: packet in on bge0 tcp 10.2.9.9,1000 192.0.2.1,8011 S => block
#: packet in on bge0 tcp 10.3.9.9,1000 192.0.2.1,80 S => block
#: packet in on bge0 udp 10.2.9.9,1000 192.0.2.1,123 => pass
#: packet in on bge0 udp 10.2.9.9,1000 192.0.2.1,124 => block
#: packet in on bge1 icmp 10.9.9.9 192.0.2.1 redir => block
#: packet in on bge1 icmp 10.9.9.9 192.0.2.1 echo => pass
#: packet in on bge0 icmp 10.9.9.9 192.0.2.1 squench => block
pass in quick on bge0 proto tcp from { 10.1.0.0/16, 10.2.0.0/16 } to any port = { 22, 80, 8000:8010 } flags S keep state
pass in quick on bge0 proto udp from (10.1.0.0/16 10.2.0.0/16) to any port = (53, 123) keep state
block in quick on { bge0, bge1 } proto icmp from any to any icmp-type { redir, squench }
pass in quick on bge1 proto icmp all
block in log on bge0 all
