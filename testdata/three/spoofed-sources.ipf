block in quick on wan0 from 10.0.0.0/8 to any
block in quick on wan0 from 172.16.0.0/12 to any
block in quick on wan0 from 192.168.0.0/16 to any
block in quick on wan0 from 127.0.0.0/8 to any
block in quick on wan0 from 169.254.0.0/16 to any
