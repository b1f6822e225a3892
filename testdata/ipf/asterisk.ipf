pass in quick on * proto tcp from any to any port = 22
pass in on eth0:1 all
pass in on vlan.100 all
pass out on ppp+ all
pass in on "weird name" all
