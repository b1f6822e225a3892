block in all
block out all
pass in quick on lo0 all
pass in quick on lan0 all
pass in quick on tun0 from 10.8.0.0/24 to any
pass out quick on lo0 all
pass out quick on lan0 all
pass out quick on tun0 from any to 10.8.0.0/24
pass out quick on wan0 from 192.0.2.0/28 to any
