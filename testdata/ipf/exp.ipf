pass in quick exp { "tcp.dport = 80, 443; ip.src != 10.0.0.0/8;" }
block in exp { "ip.addr = 192.0.2.0/24" };
pass in exp { "udp.port = 53; ip.p = udp" };
