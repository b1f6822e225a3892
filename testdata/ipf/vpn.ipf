pass in quick on em0 proto esp from 198.51.100.10/32 to 203.0.113.1/32
pass in quick on em0 proto ah from 198.51.100.10/32 to 203.0.113.1/32
pass in quick on em0 proto udp from 198.51.100.10/32 port = 500 to 203.0.113.1/32 port = 500 keep state
pass in quick on em0 proto udp from 198.51.100.10/32 to 203.0.113.1/32 port = 4500 keep state
pass in quick on em0 proto gre from any to any keep state
pass in quick on em0 proto 4 from 198.51.100.10 to any
pass in quick on em0 proto ipv6 from any to any
pass in quick on gif0 from 10.5.0.0/16 to 10.6.0.0/16
