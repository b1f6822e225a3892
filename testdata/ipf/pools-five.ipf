pass in quick from pool/trusted to any
block in quick from hash/bots to any
call now srcgrpmap/1010 in all
pass in proto tcp all group 1
block in all group 1020
