# In the manner of a graphical tool: numbered rules, negations by `skip`, a last word.
#: packet in on hme0 tcp 10.80.0.7,1000 10.80.0.5,443 S => pass
#: packet out on hme0 tcp 10.80.0.5,443 10.80.0.7,1000 SA => pass
#: packet in on hme0 tcp 10.80.1.9,1000 10.80.0.5,443 S => pass
#: packet in on hme0 tcp 192.0.2.9,1000 10.80.0.5,443 S => block
#: packet in on hme0 tcp 10.80.0.7,1000 10.80.0.5,80 S => block
#: packet in on hme0 tcp 10.80.0.5,1000 10.80.0.7,443 S => block
#: packet out on hme0 udp 10.80.0.5,1000 10.80.0.7,53 => block
#
# Rule 0 (hme0)
block in   log  quick on hme0  from 10.80.0.5  to any 
# Rule 1 (global)
skip 2 in   from 10.80.0.0/24  to 10.80.0.5
skip 1 in   from 10.80.1.0/24  to 10.80.0.5
block in   log  quick  from any  to 10.80.0.5
# Rule 2 (global)
pass in   quick  proto tcp  from any  to 10.80.0.5 port = 443 keep state
# Rule fallback rule
block in   quick  from any  to any
block out  quick  from any  to any
