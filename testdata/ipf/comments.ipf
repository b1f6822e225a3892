#!/sbin/ipf -f
block in all # all of it
#pass in all
   # indented
pass in quick proto tcp from any to any port = 22#glued
