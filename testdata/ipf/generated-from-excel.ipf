@0 block in all
@1 pass in quick proto tcp from 10.1.1.1/32 to 10.2.2.2/32 port = 8080
pass	in	quick	proto	tcp	from	10.1.1.2/32	to	10.2.2.2/32	port	=	8080
  pass in quick proto tcp from 10.1.1.3/32 to 10.2.2.2/32 port=8080
pass in quick proto tcp from 10.1.1.4/32 to 10.2.2.2/32 port =8080 flags S/SA
