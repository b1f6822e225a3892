#!/bin/bash
# Shows weir at work on this machine, in network namespaces that it makes and removes: an office
# gateway's rule files are enforced by weir, real connections are tried, and each line of the table
# names the rule that decided. Then the same with a block list of 25,600 rules in front, and
# what such a list costs per packet, beside iptables in the same run.
#
#   ./demo.sh               everything; needs root and a kernel from 6.9 on
#   ./demo.sh --iptables    the same tries with iptables-legacy in weir's place
#   ./demo.sh --no-setup    without looking for packages and Rust first
#   ./demo.sh --no-cost     without the measurement at the end
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/demo/network.sh
. scripts/demo/network.sh
# shellcheck source=scripts/demo/filters.sh
. scripts/demo/filters.sh
# shellcheck source=scripts/demo/tries.sh
. scripts/demo/tries.sh
# shellcheck source=scripts/demo/longlist.sh
. scripts/demo/longlist.sh

long_list_rules=25600
filter=weir setup=yes cost=yes
for argument in "$@"; do
    case "$argument" in
    --iptables) filter=iptables cost=no ;;
    --no-setup) setup=no ;;
    --no-cost) cost=no ;;
    *) die "usage: ./demo.sh [--iptables] [--no-setup] [--no-cost]" ;;
    esac
done
weir=target/release/weir
rules_v4=examples/office-gateway.rules.v4
rules_v6=examples/office-gateway.rules.v6
sets=examples/office-gateway.ipset
network_names
scratch=$(mktemp -d)

clean_up() {
    local status=$?
    trap - EXIT INT TERM HUP
    set +e
    if [ -e "/run/netns/$gateway" ]; then
        filter_unload >/dev/null 2>&1
    fi
    network_down
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

prepare() {
    local obstacles
    if [ "$setup" = yes ]; then
        step "what is needed"
        scripts/setup.sh
    fi
    obstacles=$(kernel_obstacles)
    if [ -n "$obstacles" ]; then
        say "this machine can't run the demo:"
        printf '%s\n' "$obstacles" | sed 's/^/  - /'
        die "check, show, explain and replay work all the same: see README.md"
    fi
    [ "$filter" = weir ] || return 0
    use_cargo || die "no cargo of at least $(rust_wanted): run scripts/setup.sh"
    step "build"
    cargo build --release -p weir -p weir-lab
}

# run_tries FILE SHOW: tries each line of FILE; counts what came out as the rules mean. SHOW says
# which rows are printed: all, or only surprises.
run_tries() {
    local who from how to expected why outcome mark place
    tried=0 surprises=0
    filter_counters >"$scratch/before"
    while read -r who from how to expected why; do
        case "$who" in "" | "#"*) continue ;; esac
        outcome=$(try_outcome "${!who}" "$from" "$how" "$to")
        filter_counters >"$scratch/after"
        moved_rules "$scratch/before" "$scratch/after" >"$scratch/moved"
        mv "$scratch/after" "$scratch/before"
        mark=" "
        tried=$((tried + 1))
        if [ "$outcome" != "$expected" ]; then
            mark="!"
            surprises=$((surprises + 1))
        fi
        if [ "$2" = all ] || [ "$mark" = "!" ]; then
            place=$(deciding_rule "$who" "$outcome" "$scratch/moved")
            print_row "$mark" "$from" "$how" "$to" "$expected" "$outcome" "$why" "$place"
        fi
    done <"$1"
    say ""
    say "$tried tries, $((tried - surprises)) as the rules mean, $surprises not (marked !)"
    surprises_all=$((surprises_all + surprises))
}

# The rule gets lines of its own, since rules are long.
print_row() {
    printf '%s %-17s %-9s %-18s %-10s %-10s %s\n' "$1" "$2" "$3" "$4" "$5" "$6" "$7"
    say "$8" | sed 's/^office-gateway\./      /'
}

try_office() {
    step "the office gateway's rules, enforced by $filter"
    filter_load
    say ""
    printf '  %-17s %-9s %-18s %-10s %-10s %s\n' from how to meant seen why
    printf '      %s\n' "the rule that decided, in examples/office-gateway.*"
    run_tries scripts/demo/tries.txt all
}

# The same rules with a long list in front, put in place while everything runs. Tries that use up
# a rule's memory (recent, limit) are left out: the first round has spent it.
try_long_list() {
    local started
    step "the same with a block list of $long_list_rules rules in front"
    long_list "$long_list_rules" "$rules_v4" >"$scratch/office-gateway.long.v4"
    rules_v4=$scratch/office-gateway.long.v4
    started=$(date +%s%N)
    filter_load
    say "loaded in $((($(date +%s%N) - started) / 1000000)) ms, text to enforced"
    grep -vE ' ([0-9]+x|tcp/22 +203)' scripts/demo/tries.txt >"$scratch/tries"
    run_tries "$scratch/tries" surprises
}

# What a packet pays for the rules on its way into INPUT, each filter in a namespace of its own,
# measured in turns: 25 rules, then the block list's number, every rule different, none matching.
measure_cost() {
    step "nanoseconds that the rules add to a packet (crates/lab)"
    target/release/weir-lab peers --quick --weir "$weir" --families real \
        --sizes "25,$long_list_rules" --contenders legacy,iptables-nft,weir
}

closing_words() {
    step "what was done"
    say "Four namespaces were made and are removed now, with everything in them; the machine's own"
    say "rules, links and services were not touched. What is left is the build in target/."
    [ "$filter" = weir ] || return 0
    step "what to try next"
    say "  $weir check FILE               what of your file weir would enforce"
    say "  $weir explain FILE PACKET      every rule tried, and why (README.md)"
    say "  $weir apply --confirm 60 FILE  enforce it; back in 60 s without weir confirm"
    say "  ./demo.sh --iptables                          the same tries through iptables"
}

prepare
step "namespaces $namespaces"
network_up
services_up
services_ready
surprises_all=0
try_office
try_long_list
[ "$cost" = no ] || measure_cost
closing_words
[ "$surprises_all" = 0 ]
