# The demo's network: four namespaces joined by the gateway, and the programs that answer in them.
# Sourced by demo.sh. Makes only what network_down removes.
#
#   client    the office (lan0) and its visitors (guest0)
#   gateway   lan0, guest0, dmz0, wan0: where the rules are enforced
#   server    the office's own servers (dmz0)
#   internet  everybody else (wan0)
# shellcheck shell=bash

# The process number makes the names unique, so two demos don't meet.
network_names() {
    client="weir-client-$$"
    gateway="weir-gateway-$$"
    server="weir-server-$$"
    internet="weir-internet-$$"
    namespaces="$client $gateway $server $internet"
}

in_namespace() { ip netns exec "$@"; }

# Addresses of one link: NAMESPACE LINK ADDRESS...
add_addresses() {
    local namespace=$1 link=$2 address
    shift 2
    for address in "$@"; do
        case "$address" in
        *:*) ip -n "$namespace" address add "$address" dev "$link" nodad ;;
        *) ip -n "$namespace" address add "$address" dev "$link" ;;
        esac
    done
}

# A pair of links of the same name, one end at the gateway: NAMESPACE LINK
join_gateway() {
    ip link add "$2" netns "$1" type veth peer name "$2" netns "$gateway"
    ip -n "$1" link set "$2" up
    ip -n "$gateway" link set "$2" up
}

network_up() {
    local namespace
    for namespace in $namespaces; do
        ip netns add "$namespace"
        # The kernel would test each IPv6 address for a second, and answer only so many pings.
        in_namespace "$namespace" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
            net.ipv6.conf.default.accept_dad=0 net.ipv4.conf.all.rp_filter=0 \
            net.ipv4.conf.default.rp_filter=0 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
        ip -n "$namespace" link set lo up
    done
    join_gateway "$client" lan0
    join_gateway "$client" guest0
    join_gateway "$server" dmz0
    join_gateway "$internet" wan0
    # The administrator's network card, which a rule names.
    ip -n "$client" link set lan0 address 02:00:5e:10:00:05
    network_addresses
    network_routes
}

network_addresses() {
    local host
    add_addresses "$client" lan0 192.168.10.20/24 192.168.10.5/24 192.168.10.30/24 \
        192.168.10.66/24 192.168.10.205/24 \
        2001:db8:10::20/64 2001:db8:10::5/64 2001:db8:10::66/64
    add_addresses "$client" guest0 192.168.50.20/24 2001:db8:50::20/64
    add_addresses "$gateway" lan0 192.168.10.1/24 2001:db8:10::1/64
    add_addresses "$gateway" guest0 192.168.50.1/24 2001:db8:50::1/64
    add_addresses "$gateway" dmz0 192.0.2.1/24 2001:db8:30::1/64
    add_addresses "$gateway" wan0 203.0.113.2/24 2001:db8:ff::2/64
    for host in 10 25 53; do
        add_addresses "$server" dmz0 "192.0.2.$host/24" "2001:db8:30::$host/64"
    done
    add_addresses "$internet" wan0 203.0.113.1/24 2001:db8:ff::1/64
    for host in 10 20 25 44 53 66 77 85 130 200; do
        add_addresses "$internet" lo "198.51.100.$host/32" "2001:db8:cafe::$host/128"
    done
    # For the try with a forged source address.
    add_addresses "$internet" lo 192.168.10.99/32
}

network_routes() {
    in_namespace "$gateway" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    ip -n "$client" route add default via 192.168.10.1
    ip -n "$client" route add default via 192.168.50.1 table 50
    ip -n "$client" rule add from 192.168.50.0/24 table 50
    ip -n "$client" -6 route add default via 2001:db8:10::1
    ip -n "$client" -6 route add default via 2001:db8:50::1 table 50
    ip -n "$client" -6 rule add from 2001:db8:50::/64 table 50
    ip -n "$gateway" route add default via 203.0.113.1
    ip -n "$gateway" -6 route add default via 2001:db8:ff::1
    ip -n "$server" route add default via 192.0.2.1
    ip -n "$server" -6 route add default via 2001:db8:30::1
    # Addresses aren't translated in the demo, so the Internet is told the way to the office.
    ip -n "$internet" route add default via 203.0.113.2
    ip -n "$internet" -6 route add default via 2001:db8:ff::2
}

# answer_tcp NAMESPACE PORT...: says a word to whoever connects, IPv4 and IPv6.
answer_tcp() {
    local namespace=$1 port
    shift
    for port in "$@"; do
        in_namespace "$namespace" socat -T 5 "TCP6-LISTEN:$port,ipv6only=0,reuseaddr,fork" \
            SYSTEM:'echo hello' >/dev/null 2>&1 &
    done
}

# answer_udp NAMESPACE PORT ADDRESS...: sends back what comes. One socket per address, because the
# answer has to leave from the address that was asked.
answer_udp() {
    local namespace=$1 port=$2 address
    shift 2
    for address in "$@"; do
        case "$address" in
        *:*) address="UDP6-RECVFROM:$port,bind=[$address],fork" ;;
        *) address="UDP4-RECVFROM:$port,bind=$address,fork" ;;
        esac
        in_namespace "$namespace" socat -T 2 "$address" SYSTEM:cat >/dev/null 2>&1 &
    done
}

services_up() {
    answer_tcp "$internet" 25 53 80 443 445 993 6881 8443
    answer_udp "$internet" 53 198.51.100.53 198.51.100.77 2001:db8:cafe::53 2001:db8:cafe::77
    answer_udp "$internet" 5060 198.51.100.77
    answer_tcp "$server" 22 25 80 443 3306 8001
    answer_udp "$server" 53 192.0.2.53 2001:db8:30::53
    answer_tcp "$gateway" 22 3128 9100
    answer_udp "$gateway" 53 192.168.10.1 2001:db8:10::1
    answer_tcp "$client" 22 5432
}

# Waits until the last of the services listens, for five seconds at most.
services_ready() {
    local tries=0
    while [ "$tries" -lt 50 ]; do
        if [ "$(in_namespace "$client" ss -Htln | wc -l)" -ge 2 ] &&
            [ "$(in_namespace "$gateway" ss -Htlun | wc -l)" -ge 5 ] &&
            [ "$(in_namespace "$server" ss -Htlun | wc -l)" -ge 8 ] &&
            [ "$(in_namespace "$internet" ss -Htlun | wc -l)" -ge 13 ]; then
            return 0
        fi
        sleep 0.1
        tries=$((tries + 1))
    done
    die "the demo's services didn't start"
}

# Ends the processes that run in our own namespaces, then the namespaces. Safe to call twice.
network_down() {
    local namespace pids
    for namespace in $namespaces; do
        [ -e "/run/netns/$namespace" ] || continue
        pids=$(ip netns pids "$namespace" 2>/dev/null || true)
        # shellcheck disable=SC2086 # a list of numbers
        [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
        ip netns del "$namespace" || warn "namespace $namespace is still there"
    done
}
