# The two filters that the demo can put on the gateway, behind the same three functions:
# filter_load, filter_counters and filter_unload. weir is the demo; iptables-legacy serves to
# check that the expectations of the tries are those of the original.
# Sourced by demo.sh. filter_counters prints "family table chain line packets" per rule.
# shellcheck shell=bash disable=SC2154 # names set in demo.sh

filter_load() {
    case "$filter" in
    weir) "$weir" apply --netns "$gateway" "$rules_v4" "$rules_v6" "$sets" ;;
    iptables)
        in_namespace "$gateway" ipset -exist restore <"$sets"
        in_namespace "$gateway" iptables-legacy-restore <"$rules_v4"
        in_namespace "$gateway" ip6tables-legacy-restore <"$rules_v6"
        ;;
    esac
}

filter_counters() {
    case "$filter" in
    weir)
        "$weir" counters --netns "$gateway" --rules --nonzero --json |
            jq -r '.[] | [(.family | tostring | ltrimstr("ipv")), .table, .chain, .line, .packets]
                | map(tostring) | join(" ")'
        ;;
    iptables)
        iptables_counters 4 iptables-legacy-save "$rules_v4"
        iptables_counters 6 ip6tables-legacy-save "$rules_v6"
        ;;
    esac
}

# iptables_counters FAMILY SAVE FILE: iptables counts by place in the chain; the file says which
# line that is.
iptables_counters() {
    in_namespace "$gateway" "$2" -c | awk -v family="$1" '
        FILENAME == ARGV[1] { line[$1, $2, $3] = $4; next }
        /^\*/ { table = substr($1, 2) }
        /^\[/ {
            split(substr($1, 2), counter, ":")
            place = ++rules[table, $3]
            print family, table, $3, line[table, $3, place], counter[1]
        }' <(rule_lines "$3") -
}

filter_unload() {
    case "$filter" in
    weir) "$weir" unload --netns "$gateway" ;;
    iptables) ;; # goes with the namespace
    esac
}
