set intercept_loopback true;
block in all
block out all
pass in quick on lo0 from 127.0.0.1/32 to 127.0.0.1/32
pass out quick on lo0 from 127.0.0.1/32 to 127.0.0.1/32
pass in quick on e1000g0 from pool/100 to any keep state
pass out quick on e1000g0 from any to any keep state
