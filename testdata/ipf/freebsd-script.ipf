oif="dc0"
odns="192.0.2.11"
myip="192.0.2.7"
ks="keep state"
fks="flags S keep state"
pass out quick on $oif proto tcp from any to $odns port = 53 $fks
pass out quick on $oif proto udp from any to $odns port = 53 $ks
pass out quick on $oif proto tcp from $myip to any port = 80 ${fks}
