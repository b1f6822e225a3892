block in proto icmp all
pass in quick proto icmp all icmp-type echo pps 10
pass in quick on em0 proto tcp from any to any port = 80 flags S keep state set-tag(log=80)
pass in log quick from 10.0.0.0/8 to any set-tag (log=7)
pass out log quick from any to 10.0.0.0/8 set-tag(log=8, nat=office)
