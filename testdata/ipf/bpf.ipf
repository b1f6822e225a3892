pass in bpf-v4 { "0x28 0 0 12 0x15 0 1 2048" }
block in bpf-v4 { "tcp and port 80" }
