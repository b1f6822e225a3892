#!/bin/bash
# Runs every test of the project: those that need nothing, and those in the kernel. Sets up what it
# needs first (scripts/setup.sh). Ends with a summary; fails if one test failed.
#
#   ./test.sh              everything
#   ./test.sh --no-setup   without looking for packages and Rust first
#
# Kernel tests are skipped only when this kernel or this user can't run them, and the reasons are
# printed twice. Where they can run, WEIR_REQUIRE_KERNEL=1 turns every skip into a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

case "${1:-}" in
"")
    step "what is needed"
    scripts/setup.sh
    ;;
--no-setup) ;;
*) die "usage: ./test.sh [--no-setup]" ;;
esac
use_cargo || die "no cargo of at least $(rust_wanted): run scripts/setup.sh"

obstacles=$(kernel_obstacles)
kernel_note() {
    if [ -z "$obstacles" ]; then
        say "kernel tests: run (kernel $(uname -r)), a skip counts as a failure"
        return
    fi
    say "KERNEL TESTS ARE SKIPPED on this machine:"
    printf '%s\n' "$obstacles" | sed 's/^/  - /'
}

step "kernel"
kernel_note
if [ -z "$obstacles" ]; then
    export WEIR_REQUIRE_KERNEL=1
else
    unset WEIR_REQUIRE_KERNEL
fi

step "build"
started=$SECONDS
cargo build --workspace --all-targets
say "built in $((SECONDS - started)) s"

failed=""
# The demo is a test too: its tries have to come out as the rule files mean, with weir on the
# gateway, and, to know that the expectations are right, with iptables there.
if [ -z "$obstacles" ]; then
    step "demo, with weir"
    ./demo.sh --no-setup --no-cost || failed="$failed demo"
    step "demo, with iptables"
    if unshare -n iptables-legacy -nL >/dev/null 2>&1; then
        ./demo.sh --no-setup --iptables || failed="$failed demo-with-iptables"
    else
        say "SKIPPED: this kernel has no iptables-legacy tables"
    fi
fi

step "tests"
mkdir -p target
log=target/test.log
started=$SECONDS
# The limit is for a test that hangs; a whole run takes far less. In the foreground, so that an
# interrupt reaches the tests, which then remove their namespaces.
timeout --foreground --kill-after=10 2400 cargo test --workspace --no-fail-fast 2>&1 | tee "$log" ||
    failed="$failed cargo-test"

step "summary"
awk '/^test result:/ {
    suites++; passed += $4; failed += $6; ignored += $8
} END {
    printf "%d tests in %d suites passed, %d failed, %d ignored\n", passed, suites, failed, ignored
}' "$log"
say "took $((SECONDS - started)) s after the build; the whole output is in $log"
grep -E '^test .* \.\.\. FAILED$' "$log" || true
kernel_note
if [ -n "$failed" ]; then
    say "FAILED:$failed"
    exit 1
fi
say "all passed"
