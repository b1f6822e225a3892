# Shared by setup.sh, test.sh, demo.sh and .ci/run: messages, where cargo is, what the kernel can
# do. Sourced, never run. Changes nothing on the machine.
# shellcheck shell=bash

weir_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${HOME:=/root}"
export HOME

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

am_root() { [ "$(id -u)" = 0 ]; }

# version_at_least HAVE WANTED: both are dotted numbers.
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# The oldest Rust that the workspace accepts, from its own manifest.
rust_wanted() {
    sed -n 's/^rust-version = "\(.*\)"/\1/p' "$weir_root/Cargo.toml" | head -n 1
}

# rust_version CARGO: the version of that cargo, or nothing.
rust_version() {
    "$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9][0-9.]*\).*/\1/p'
}

# cargo_fits CARGO: it is there and new enough.
cargo_fits() {
    local have
    have=$(rust_version "$1")
    [ -n "$have" ] && version_at_least "$have" "$(rust_wanted)"
}

# use_cargo: puts a cargo that is new enough on PATH: the one that is there already, or rustup's,
# or rustup's stable where another toolchain is the default. Fails when there is none.
use_cargo() {
    local by_rustup="${CARGO_HOME:-$HOME/.cargo}/bin"
    cargo_fits cargo && return
    PATH="$by_rustup:$PATH"
    export PATH
    hash -r
    cargo_fits cargo && return
    export RUSTUP_TOOLCHAIN=stable
    cargo_fits cargo && return
    unset RUSTUP_TOOLCHAIN
    return 1
}

# kernel_obstacles: one line per reason why this machine can't run weir's kernel plane; nothing
# printed means that it can. The symbols are the functions behind BPF netfilter links and BTF.
kernel_obstacles() {
    local release
    release=$(uname -r)
    am_root || say "not root: loading programs and making namespaces needs it"
    version_at_least "${release%%[!0-9.]*}" 6.6 || say "kernel $release is older than 6.6"
    [ -r /sys/kernel/btf/vmlinux ] || say "no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"
    if [ -r /proc/kallsyms ] && ! grep -q ' bpf_nf_link_attach' /proc/kallsyms; then
        say "no BPF netfilter links (CONFIG_NETFILTER_BPF_LINK)"
    fi
    [ "$(stat -f -c %T /sys/fs/bpf 2>/dev/null)" = bpf_fs ] ||
        say "no bpf file system on /sys/fs/bpf"
    if am_root && command -v unshare >/dev/null && ! unshare -n true 2>/dev/null; then
        say "network namespaces can't be made here"
    fi
}
