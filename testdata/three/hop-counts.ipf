block in quick ttl 1 from any to any
block in quick ttl 0 from any to any
