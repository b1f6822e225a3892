#
# ident	"@(#)ipf.conf	1.9"
#
# IP Filter rules to be loaded during startup
#
# See ipf(4) manpage for more information on
# IP Filter rules syntax.
#
# INTRA-ZONE FILTERING
#set intercept_loopback true;

pass in quick on bge0 proto icmp from any to any
block return-icmp(filter-prohib) in log quick on bge0 proto udp from any to any port = sunrpc
block in log on bge0 proto tcp from any to any port 6000 >< 6010
pass in quick on bge0 proto tcp from 192.168.10.0/24 to any port = 22 keep state keep frags
pass in quick on bge0 proto tcp from 192.168.10.0 mask 255.255.255.0 to 192.168.10.5/0xffffffff port = telnet keep state
block in log on bge0 from any to any
pass out quick on bge0 from any to any keep state
