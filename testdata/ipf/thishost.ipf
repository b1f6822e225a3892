block in from !<thishost> to any
pass in from any to <thishost> port = 22
