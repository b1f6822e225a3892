# A block list as long as one likes, put in front of the rules of an iptables-save file.
# Sourced by demo.sh.
# shellcheck shell=bash

# long_list COUNT FILE: prints FILE with COUNT more rules, all different, which INPUT and FORWARD
# pass through first. They name networks of 11.0.0.0/8 to 15.0.0.0/8, alone or with a port, so none
# of the demo's packets is meant, and every packet has to be looked up among all of them.
long_list() {
    awk -v count="$1" '
        function network(at,   bits) {
            bits = 24 + at % 9
            at = at * 2654435 % 83886080          # spread over five /8, and nowhere twice
            at -= at % 2 ^ (32 - bits)
            return sprintf("%d.%d.%d.%d/%d", 11 + int(at / 2 ^ 24), int(at / 2 ^ 16) % 256,
                int(at / 2 ^ 8) % 256, at % 256, bits)
        }
        function condition(at) {
            if (at % 4 == 1) return " -p tcp -m tcp --dport " 1 + at % 60000
            if (at % 4 == 2) return " -p udp -m udp --dport " at % 40000 ":" at % 40000 + at % 97
            if (at % 4 == 3) return " -p tcp -m tcp --sport " 1024 + at % 50000
            return ""
        }
        /^\*/ { filter = $1 == "*filter" }
        { if (filter && /^:FORWARD/) { print; print ":FEED - [0:0]"; next } }
        filter && /^-A/ && !done {
            print "-A INPUT -j FEED"
            print "-A FORWARD -j FEED"
            for (at = 0; at < count; at++)
                print "-A FEED -s " network(at) condition(at) " -j BLOCKED_DROP"
            done = 1
        }
        { print }' "$2"
}
