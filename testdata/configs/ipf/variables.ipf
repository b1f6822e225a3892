# Names for interfaces, nets and parts of rules.
#: packet in on tun0 tcp 198.51.100.1,1000 192.168.7.2,25 S => pass
#: packet in on tun0 tcp 198.51.100.1,1000 192.168.7.2,26 S => block
#: packet out on tun0 udp 192.168.7.9,1000 198.51.100.1,53 => pass
#: packet in on tun0 udp 198.51.100.1,53 192.168.7.9,1000 => pass
#: packet out on tun0 udp 192.168.8.9,1000 198.51.100.1,53 => block
ext = "tun0"; inside="192.168.7.0/24";
server='192.168.7.2';
new="flags S keep state";
block in log on $ext all
pass in quick on $ext proto tcp from any to $server port = smtp $new
pass out quick on ${ext} from ${inside} to any keep state
block out quick on $ext all
