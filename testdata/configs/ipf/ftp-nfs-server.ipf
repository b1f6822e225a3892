# Active and passive FTP for all, NFS for one net; the edges of port ranges.
#: packet in on hme0 tcp 198.51.100.1,2000 192.0.2.30,21 S => pass
#: packet out on hme0 tcp 192.0.2.30,20 198.51.100.1,2001 S => pass
#: packet out on hme0 tcp 192.0.2.30,20 198.51.100.1,1023 S => block
#: packet in on hme0 tcp 198.51.100.1,2002 192.0.2.30,30000 S => block return-rst
#: packet in on hme0 tcp 198.51.100.1,2003 192.0.2.30,30001 S => pass
#: packet in on hme0 tcp 198.51.100.1,2004 192.0.2.30,30100 S => pass
#: packet in on hme0 tcp 198.51.100.1,2005 192.0.2.30,30101 S => block return-rst
#: packet in on hme0 udp 10.50.1.1,800 192.0.2.30,2049 => pass
#: packet in on hme0 udp 10.51.1.1,800 192.0.2.30,2049 => block
#: packet in on hme0 udp 10.50.1.1,801 192.0.2.30,4010 => pass
#: packet in on hme0 udp 10.50.1.1,802 192.0.2.30,4011 => block
#: packet in on hme0 tcp 198.51.100.1,2006 192.0.2.30,512 S => block
#: packet in on hme0 tcp 198.51.100.1,2007 192.0.2.30,513 S => block
block in all
block out all
pass in quick on hme0 proto tcp from any to 192.0.2.30 port = ftp flags S keep state
pass out quick on hme0 proto tcp from 192.0.2.30 port = ftp-data to any port > 1023 flags S keep state
pass in quick on hme0 proto tcp from any to 192.0.2.30 port 30000 >< 30101 flags S keep state
pass in quick on hme0 proto tcp/udp from 10.50.0.0/16 to 192.0.2.30 port = sunrpc keep state
pass in quick on hme0 proto tcp/udp from 10.50.0.0/16 to 192.0.2.30 port = nfsd keep state keep frags
pass in quick on hme0 proto udp from 10.50.0.0/16 to 192.0.2.30 port 4000:4010 keep state
block return-rst in log quick on hme0 proto tcp from any to 192.0.2.30 port 512 <> 514
