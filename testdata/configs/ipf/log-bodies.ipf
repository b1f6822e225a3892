# The words of `log` on rules that decide, and rules that only log.
#: packet in on bge0 icmp 192.0.2.1 192.0.2.2 echo => nomatch
#: packet in on bge0 tcp 192.0.2.1,1000 192.0.2.2,22 S => pass
#: packet in on bge0 tcp 192.0.2.1,1000 192.0.2.2,23 S => block
#: packet in on bge0 tcp 192.0.2.1,1000 192.0.2.2,24 S => nomatch
#: packet in on bge0 udp 192.0.2.1,1000 192.0.2.2,514 => block
#: packet in on bge0 udp 192.0.2.1,1000 192.0.2.2,515 => nomatch
#: packet out on bge0 udp 192.0.2.2,1000 192.0.2.1,515 => pass
log in on bge0 proto icmp all
log body first in on bge0 proto tcp from any to any flags S
block in log body level auth.warn on bge0 proto udp from any to any port = 514
pass in log first quick on bge0 proto tcp from any to any port = 22 flags S keep state
block in log or-block quick on bge0 proto tcp from any to any port = 23
log level local3.debug out quick on bge0 all
pass out on bge0 all
block in log level notice on bge0 proto gre all
