sip="5060"; rtp="16384:32767";
pass in quick on re0 proto udp from 198.51.100.0/24 to any port = $sip keep state (limit 50, no-icmp-err)
pass in quick on re0 proto udp from 198.51.100.0/24 to any port $rtp keep state (age 30)
pass out quick on re0 tos 0xb8 proto udp from any port $rtp to any keep state
block in log first quick on re0 proto udp from any to any port = $sip
