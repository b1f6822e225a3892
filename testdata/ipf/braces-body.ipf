pass in on vlan10 all head office {
	block in quick from any to 10.9.0.0/16
	pass in quick proto tcp from any to any port = 22 flags S keep state
	block in proto tcp all head tcp-of-office {
		pass in quick proto tcp from any to any port 8000:8099 keep state
	}
}
pass out on vlan10 all
