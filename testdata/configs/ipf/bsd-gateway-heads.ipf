# A gateway whose interfaces are heads of groups; what the members leave, the head decides.
#: packet in on tun0 tcp 198.51.100.1,3000 203.0.113.10,25 S => pass
#: packet in on tun0 tcp 198.51.100.1,3000 203.0.113.10,22 S => block
#: packet in on tun0 tcp 10.1.1.1,3000 203.0.113.10,25 S => block
#: packet in on tun0 icmp 198.51.100.1 203.0.113.10 echo => pass
#: packet out on tun0 tcp 192.168.1.7,3000 198.51.100.9,80 S => pass
#: packet in on tun0 tcp 198.51.100.9,80 192.168.1.7,3000 SA => pass
#: packet out on tun0 udp 192.168.1.7,3000 198.51.100.9,123 => block
#: packet in on fxp1 tcp 192.168.1.8,3001 198.51.100.9,80 S => pass
#: packet in on fxp1 tcp 192.168.2.8,3001 198.51.100.9,80 S => block
#: packet out on fxp1 udp 198.51.100.9,53 192.168.1.7,3002 => pass
block in log quick on tun0 all head 100
  block in quick from 10.0.0.0/8 to any group 100
  block in quick from 192.168.0.0/16 to any group 100
  pass in quick proto tcp from any to 203.0.113.10/32 port = 25 flags S keep state group 100
  pass in proto icmp from any to any icmp-type 8 group 100
block out on tun0 all head 200
  pass out quick proto tcp from 192.168.1.0/24 to any flags S keep state keep frags group 200
  pass out quick proto udp from 192.168.1.0/24 to any port = 53 keep state group 200
pass in quick on fxp1 from 192.168.1.0/24 to any
block in on fxp1 all
pass out on fxp1 all
