pass in proto icmp all icmp-type echo
pass in proto icmp all icmp-type echorep
pass in proto icmp all icmp-type unreach code needfrag
pass in proto icmp all icmp-type squench
pass in proto icmp all icmp-type redir code 1
pass in proto icmp all icmp-type timex
pass in proto icmp all icmp-type paramprob
pass in proto icmp all icmp-type timest
pass in proto icmp all icmp-type timestrep
pass in proto icmp all icmp-type inforeq
pass in proto icmp all icmp-type inforep
pass in proto icmp all icmp-type maskreq
pass in proto icmp all icmp-type maskrep
pass in proto icmp all icmp-type routerad
pass in proto icmp all icmp-type routersol
pass in proto icmp all icmp-type { 3, 4, 11 }
pass in proto icmp all icmp-type 3 code { 0 1 4 }
