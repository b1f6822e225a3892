pass in quick on igb0 from pool/admins to any port = 22
block in quick on igb0 from hash/bad to any
block in quick on igb0 from any to pool=(10.0.0.0/8, !10.1.0.0/16, 192.168.0.0/16)
pass in on igb0 from !pool/14 to hash=(192.0.2.1, 192.0.2.2) port = 80
