ext="em0"; int="em1"; dmz="em2";
web="192.0.2.80/32";
mail="192.0.2.25/32";
all_priv="10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16";
block in quick on $ext from { $all_priv } to any
pass in quick on $ext proto tcp from any to $web port = { 80, 443 } flags S/SA keep state (limit 5000)
pass in quick on $ext proto tcp from any to $mail port = { 25 465 587 } flags S/SA keep state (max-srcs 100, max-per-src 10/32)
pass in quick on $int from 192.168.1.0/24 to any keep state (age 600/60)
pass in quick on $dmz proto udp from { $web, $mail } to any port = 53 keep state
block return-rst in quick on { $ext $dmz } proto tcp all
block in on ${ext} all
