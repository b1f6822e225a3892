# Old spellings: masks in words, odd flags, fragments.
#: packet in on le0 tcp 192.0.2.1,20 128.1.40.7,1024 S => pass
#: packet in on le0 tcp 192.0.2.1,20 128.1.40.7,1023 S => nomatch
#: packet in on le0 tcp 192.0.2.1,21 128.1.40.7,1024 SF => block
#: packet in on le0 tcp 192.0.2.1,20 128.1.40.7,1024 => block
#: packet in on le0 tcp 128.1.40.200,20 128.1.40.7,80 S => block
#: packet in on le0 udp 128.1.40.200,20 128.1.40.5,53 => pass
#: packet in on le0 icmp 192.0.2.1 128.1.40.7 unreach,4 => pass
#: packet in on le0 icmp 192.0.2.1 128.1.40.7 unreach,3 => nomatch
pass in quick on le0 proto icmp from any to any icmp-type unreach code needfrag
block in quick on le0 proto tcp all flags SF/SF
block in quick on le0 proto tcp all flags /FSRPAU
block in log on le0 from 128.1.40.9 mask 0xffffff00 to any
pass in on le0 proto tcp/udp from any to 128.1.40.5/32 port = domain
pass in on le0 proto tcp from any port = ftp-data to 128.1.40.0/24 port > 1023
block in on le0 all with frag
