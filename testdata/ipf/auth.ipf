auth in quick on ppp0 proto tcp from any to any port = 23 flags S/SA
preauth in on ppp0 all
