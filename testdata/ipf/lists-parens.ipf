pass in quick proto tcp from (10.0.0.1, 10.0.0.2) to any port = (22, 80, 443)
block in on (bge0, bge1) all
