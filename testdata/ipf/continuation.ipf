pass in quick on le0 proto tcp \
	from 10.1.0.0/16 \
	to any port = 22 \
	flags S/SA keep state
block in
  quick on le0
  from any to any;
pass out quick on le0 all; pass out quick on le1 all;
