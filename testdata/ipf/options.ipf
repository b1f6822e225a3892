block in quick all with opt lsrr,ssrr
block in quick all with opt rr
block in quick from any to any with opt nop, ts
pass in all with not opt lsrr, not opt ssrr
pass in quick all with opt sec-class unclass
block in quick all with opt sec-class topsecret,secret
pass in all with opt sec not opt rtralrt
block in all with ipopts, not frag
