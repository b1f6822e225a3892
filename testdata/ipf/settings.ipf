set state_max 10007;
set fr_statemax 20011;
set tcp_idle_timeout 7200;
set default_pass 2;
set intercept_loopback true;
pass in all
