block in proto icmp all
pass in quick proto icmp from any to any icmp-type echo
pass in quick proto icmp from any to any icmp-type echorep
pass in quick proto icmp from any to any icmp-type unreach
pass in quick proto icmp from any to any icmp-type timex
