# One try: real packets from one namespace to another, what came of them, and which rule decided.
# Sourced by demo.sh. The filter is asked for its counters before and after; nobody else sends
# through these namespaces, so the rules whose counters moved are the rules that this try met.
# shellcheck shell=bash disable=SC2154 # names set in demo.sh

# try_outcome NAMESPACE FROM HOW TO: prints answered, refused, prohibited, silence, or limited when
# "40xping" (forty conversations at once) came out differently among themselves.
try_outcome() {
    local namespace=$1 from=$2 how=$3 to=$4 outcomes count one
    case "$how" in
    [0-9]*x*) count=${how%%x*} ;;
    *)
        try_once "$@"
        return
        ;;
    esac
    outcomes=$(
        for one in $(seq "$count"); do
            try_once "$namespace" "$from" "${how#*x}" "$to" "$one" &
        done
        wait
    )
    outcomes=$(say "$outcomes" | sort -u)
    case "$outcomes" in
    *answered*silence*) say limited ;;
    *) say "$outcomes" ;;
    esac
}

try_once() {
    local namespace=$1 from=$2 how=$3 to=$4
    case "$how" in
    tcp/*) try_tcp "$namespace" "$from" "${how#tcp/}" "$to" ;;
    udp/*) try_udp "$namespace" "$from" "${how#udp/}" "$to" ;;
    ping) try_ping "$namespace" "$from" "$to" 56 ;;
    ping4000) try_ping "$namespace" "$from" "$to" 4000 ;;
    *) die "no such way to try: $how" ;;
    esac
}

# What an error of the socket says about the packet's fate. Which ICMP error gives which number is
# fixed in the kernel: icmp(7), ipv6(7).
outcome_of_error() {
    case "$1" in
    *"Connection refused"*) say refused ;;
    *"No route to host"* | *"Network is unreachable"* | *"Permission denied"* | *"not available"*)
        say prohibited
        ;;
    *) say silence ;;
    esac
}

try_tcp() {
    local namespace=$1 from=$2 port=$3 to=$4 said family=TCP4
    case "$to" in
    *:*) family=TCP6 from="[$from]" to="[$to]" ;;
    esac
    said=$(in_namespace "$namespace" socat -T 2 -u \
        "$family:$to:$port,bind=$from,connect-timeout=0.6" STDOUT 2>&1 </dev/null || true)
    case "$said" in
    *hello*) say answered ;;
    *) outcome_of_error "$said" ;;
    esac
}

try_udp() {
    local namespace=$1 from=$2 port=$3 to=$4 said family=UDP4
    case "$to" in
    *:*) family=UDP6 from="[$from]" to="[$to]" ;;
    esac
    said=$(echo question | in_namespace "$namespace" socat -t 0.6 -T 0.6 - \
        "$family:$to:$port,bind=$from" 2>&1 || true)
    case "$said" in
    *question*) say answered ;;
    *) outcome_of_error "$said" ;;
    esac
}

try_ping() {
    local namespace=$1 from=$2 to=$3 size=$4 said
    said=$(in_namespace "$namespace" ping -n -c 1 -W 0.6 -s "$size" -I "$from" "$to" 2>&1 || true)
    case "$said" in
    *" 1 received"*) say answered ;;
    *rohibited* | *iltered* | *nreachable*) say prohibited ;;
    *) say silence ;;
    esac
}

# rule_lines FILE: "table chain index line" of every rule of an iptables-save file, index from 1.
rule_lines() {
    awk '/^\*/ { table = substr($1, 2) }
        /^-A / { print table, $2, ++rules[table, $2], NR }' "$1"
}

# moved_rules BEFORE AFTER: the lines "family table chain line" of the rules that counted packets
# in between. Both files have "family table chain line packets"; a rule that counted nothing yet
# may be missing.
moved_rules() {
    awk 'FILENAME == ARGV[1] { before[$1, $2, $3, $4] = $5; next }
        $5 > before[$1, $2, $3, $4] { print $1, $2, $3, $4 }' "$1" "$2"
}

# moved_texts MOVED: the same rules as "TABLE CHAIN FILE:LINE RULE".
moved_texts() {
    local family table chain line file
    while read -r family table chain line; do
        file=$rules_v4
        [ "$family" = 4 ] || file=$rules_v6
        printf '%s %s %s:%s %s\n' "$table" "$chain" "$(basename "$file")" "$line" \
            "$(sed -n "${line}s/^-A //p" "$file")"
    done <"$1"
}

# deciding_rule WHO OUTCOME MOVED: prints FILE:LINE and the rule. Of the rules that counted it is
# the one that ended the walk of the first packet: not the rule for ESTABLISHED, which the answers
# meet; not the gateway's OUTPUT, which the gateway's own refusals meet (when the gateway itself
# tries, the other way round); not IPv6's search for neighbours. When no such rule counted, every
# rule was passed by and the chain's policy decided.
deciding_rule() {
    local who=$1 outcome=$2 table chain text best="" fallback=""
    moved_texts "$3" >"$scratch/texts"
    while read -r table chain text; do
        case "$who:$chain" in
        gateway:OUTPUT) ;;
        gateway:* | *:OUTPUT | *:NEIGHBOURS) continue ;;
        esac
        case "$table:$text" in
        *"-j ACCEPT"* | *"-j DROP"* | *"-j REJECT"*) ;;
        *) continue ;;
        esac
        case "$outcome:$text" in
        *ESTABLISHED*) fallback=${fallback:-$text} ;;
        answered:*"-j ACCEPT" | limited:*"-j ACCEPT") best=${best:-$text} ;;
        answered:* | limited:*) ;;
        *"-j ACCEPT") fallback=$text ;; # let through; refused or lost further on
        *) best=${best:-$text} ;;
        esac
    done <"$scratch/texts"
    best=${best:-$fallback}
    if [ -z "$best" ]; then
        say "the policy of the chain"
        return
    fi
    caller_of "$best"
    say "$best"
}

# caller_of RULE: where the rule has no condition of its own but the protocol, the rule that sent
# the packet to its chain, because "LOG_DROP -j DROP" alone says little.
caller_of() {
    local chain rest text
    read -r _ chain rest <<<"$1"
    case "$rest" in
    "-j "* | "-p tcp -j "* | "-p udp -j "*) ;;
    *) return 0 ;;
    esac
    while read -r _ _ text; do
        case "$text" in
        *" -j $chain" | *" -g $chain") say "$text" ;;
        esac
    done <"$scratch/texts" | tail -n 1
}
