#
# ppp0 is the modem
#
pass in quick on lo0 all
pass out quick on lo0 all
block in log body on ppp0 all
block in quick on ppp0 proto tcp all flags /SAFR
block return-rst in log on ppp0 proto tcp all flags S/SA
block return-icmp(port-unr) in log on ppp0 proto udp all
pass out on ppp0 proto tcp all flags S/SAFR keep state
pass out on ppp0 proto udp all keep state
pass out on ppp0 proto icmp all keep state
pass in on ppp0 proto icmp all icmp-type unreach
pass in on ppp0 proto icmp all icmp-type timex
pass in on ppp0 proto icmp from any to any icmp-type unreach code needfrag
