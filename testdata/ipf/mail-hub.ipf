hub = "192.0.2.25/32";
relays = "198.51.100.25, 198.51.100.26, 203.0.113.25";
fromrelays = "from { $relays } to $hub";
pass in quick on bnx0 proto tcp $fromrelays port = { smtp, 465 } flags S/FSRPAU keep state (limit 2000, age 900)
block return-rst in log level mail.notice quick on bnx0 proto tcp from any to $hub port = smtp
pass in quick on bnx0 proto tcp from any to $hub port = imaps flags S keep state (max-srcs 500, max-per-src 8)
pass out quick on bnx0 proto tcp from $hub to any port = smtp flags S keep state
pass out quick on bnx0 proto udp from $hub to any port = domain keep state
