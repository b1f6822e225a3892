block in all
nomatch in quick proto icmp all
