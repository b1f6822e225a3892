block in log level auth.warn quick on hme0 from any to any with ipopts
block in log level local0.notice on hme0 proto tcp from any to any flags S/SA
block in log body level local3.info quick on hme0 proto tcp from any to any port = 12345
pass in log first level daemon.debug quick on hme0 proto tcp from any to any port = 25 flags S/SA keep state
pass in log or-block quick on hme0 proto tcp from any to any port = 23
log level kern.crit in on hme0 from any to any port = 31337
log first in quick on hme0 proto icmp all
