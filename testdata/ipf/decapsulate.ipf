decapsulate in proto 4 all head tun
pass in quick from 10.0.0.0/8 to any group tun
