block in quick from 203.0.113.99/32 to any rule-ttl 3600
pass in all comment "the rest"
