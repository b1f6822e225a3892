#!/bin/bash
# Brings a Debian 12 machine to the point where weir builds, runs and tests itself: packages, Rust,
# the bpf file system. Does only what is missing, so a second run takes a fraction of a second.
#
#   scripts/setup.sh            what building, the tests and the demo need
#   scripts/setup.sh --lints    also what .ci/run needs (rustfmt, clippy, shellcheck)
#
# It does not change network settings, rules or services, and removes nothing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

lints=no
case "${1:-}" in
"") ;;
--lints) lints=yes ;;
*) die "usage: scripts/setup.sh [--lints]" ;;
esac

# What each package is for. libelf and zlib are linked by the vendored libbpf; the distribution's
# own libbpf must not be linked (1.1 knows no netfilter links), so libbpf-dev is not in the list.
build_packages="clang gcc libc6-dev libelf-dev zlib1g-dev pkg-config make git curl ca-certificates"
run_packages="iproute2 iputils-ping procps mount util-linux socat jq"
peer_packages="iptables nftables ipset conntrack"
lint_packages="shellcheck"

# Reports which of the given packages dpkg doesn't have installed.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            printf '%s ' "$package"
    done
}

# On other distributions: name the programs that are missing and leave the rest to the reader.
require_programs() {
    local program missing=""
    for program in clang cc pkg-config make curl ip ping socat jq; do
        command -v "$program" >/dev/null || missing="$missing $program"
    done
    [ -z "$missing" ] || die "this is not Debian, so install these yourself:$missing" \
        "(and the headers of libelf and zlib)"
}

install_packages() {
    local wanted="$build_packages $run_packages $peer_packages" missing
    [ "$lints" = no ] || wanted="$wanted $lint_packages"
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        require_programs
        return
    fi
    # shellcheck disable=SC2086 # the lists are words
    missing=$(missing_packages $wanted)
    if [ -z "$missing" ]; then
        say "packages: all there"
        return
    fi
    am_root || die "these packages are missing, and installing them needs root: $missing"
    say "packages: installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    # shellcheck disable=SC2086
    apt-get install -q -y --no-install-recommends $missing
}

# rustup's own installer, by the address that rustup.rs gives for installing without its script,
# with the checksum beside it.
install_rustup() {
    local address folder
    address="https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init"
    folder=$(mktemp -d)
    (
        trap 'rm -rf "$folder"' EXIT
        cd "$folder"
        curl --proto '=https' --tlsv1.2 -sSf --retry 3 -O "$address" -O "$address.sha256"
        echo "$(cut -d ' ' -f 1 rustup-init.sha256)  rustup-init" | sha256sum --check --quiet
        chmod +x rustup-init
        ./rustup-init -y --quiet --no-modify-path --profile minimal --default-toolchain stable
    )
}

install_rust() {
    local wanted
    wanted=$(rust_wanted)
    if use_cargo; then
        say "rust: $(rust_version cargo) at $(command -v cargo) (at least $wanted is needed)"
        return
    fi
    if command -v rustup >/dev/null; then # use_cargo has put rustup's own folder on PATH
        say "rust: older than $wanted; updating the stable toolchain by rustup"
        rustup toolchain install stable --profile minimal
    else
        say "rust: no cargo of at least $wanted here; installing it by rustup into $HOME/.cargo"
        install_rustup
    fi
    use_cargo || die "there is still no cargo of at least $wanted"
    say "rust: $(rust_version cargo) at $(command -v cargo)"
}

install_lints() {
    local component
    for component in fmt clippy; do
        cargo "$component" --version >/dev/null 2>&1 && continue
        command -v rustup >/dev/null || die "cargo $component is missing, and so is rustup"
        say "rust: adding $component"
        rustup component add "$([ "$component" = fmt ] && echo rustfmt || echo clippy)"
    done
}

# Pinned programs and maps live there; systemd mounts it at boot, containers and small images don't.
mount_bpffs() {
    if [ "$(stat -f -c %T /sys/fs/bpf 2>/dev/null)" = bpf_fs ]; then
        say "bpf file system: on /sys/fs/bpf"
    elif ! am_root; then
        warn "no bpf file system on /sys/fs/bpf; mounting it needs root"
    elif [ -d /sys/fs/bpf ] && mount -t bpf bpf /sys/fs/bpf; then
        say "bpf file system: mounted on /sys/fs/bpf"
    else
        warn "this kernel has no bpf file system: what needs no kernel still works"
    fi
}

install_packages
install_rust
[ "$lints" = no ] || install_lints
mount_bpffs
