#!/bin/sh
#
# PROVIDE: myfirewall
# REQUIRE: FILESYSTEMS
# KEYWORD: shutdown
#: argument start
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:22 syn => accept 1000
#: packet in=em0 tcp 203.0.113.9:1 > 192.0.2.1:23 syn => drop 65000
. /etc/rc.subr
name="myfirewall"
rcvar="myfirewall_enable"
start_cmd="fw_start"
stop_cmd="fw_stop"
: ${myfirewall_enable:="YES"}
: ${myfirewall_ports:="22 80 443"}
fw_start() {
	ipfw -q -f flush
	n=1000
	for p in ${myfirewall_ports}; do
		ipfw -q add $n allow tcp from any to any ${p} in setup
		n=$((n + 10))
	done
	ipfw -q add 2000 allow tcp from any to any established
	ipfw -q add 3000 allow ip from any to any out
	ipfw -q add 65000 deny ip from any to any
}
fw_stop() { ipfw -q -f flush; }
load_rc_config $name
run_rc_command "$1"
