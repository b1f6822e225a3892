#!/bin/bash
# Installs weir on this machine: program, manual pages, completion, and a unit that enforces the
# rules in /etc/weir/policy.d at boot. Nothing is enabled and nothing enforced by it.
#
#   scripts/install.sh                      into /usr/local, building it where that isn't done yet
#   scripts/install.sh --prefix /usr        somewhere else
#   scripts/install.sh --root FOLDER        all under FOLDER, for packages
#   scripts/install.sh --binary FILE        this program instead of building one
#   scripts/install.sh --uninstall          takes the files away; rules in /etc/weir stay
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

prefix=/usr/local root="" binary="" uninstall=no
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix | --root | --binary)
        [ $# -ge 2 ] || die "$1 needs a value"
        case "$1" in
        --prefix) prefix=$2 ;;
        --root) root=$2 ;;
        --binary) binary=$2 ;;
        esac
        shift 2
        ;;
    --uninstall) uninstall=yes && shift ;;
    *) die "usage: scripts/install.sh [--prefix FOLDER] [--root FOLDER] [--binary FILE]" \
        "[--uninstall]" ;;
    esac
done

program=$root$prefix/sbin/weir
boot=$root$prefix/lib/weir/boot
manual=$root$prefix/share/man/man1
completion=$root$prefix/share/bash-completion/completions/weir
unit=$root/etc/systemd/system/weir.service

if [ "$uninstall" = yes ]; then
    rm -f "$program" "$boot" "$completion" "$unit" "$manual"/weir.1 "$manual"/weir-*.1
    [ ! -d "$root$prefix/lib/weir" ] || rmdir "$root$prefix/lib/weir"
    say "weir's files are gone; what is enforced and the rules in /etc/weir stay"
    exit 0
fi

if [ -z "$binary" ]; then
    use_cargo
    (cd "$scripts/.." && cargo build --release -p weir)
    binary=$scripts/../target/release/weir
fi
# Written beside and moved, so that a running agent keeps the file it was started from.
install -D -m 755 "$binary" "$program.new"
mv "$program.new" "$program"
install -D -m 755 "$scripts/boot.sh" "$boot"
mkdir -p "$manual"
"$program" man "$manual"
mkdir -p "$(dirname "$completion")"
"$program" completions bash >"$completion"
mkdir -p "$(dirname "$unit")"
sed "s|@PREFIX@|$prefix|g" "$scripts/weir.service" >"$unit"
install -d -m 700 "$root/etc/weir/policy.d" "$root/var/lib/weir"

say "weir is in $prefix/sbin. Put rules into /etc/weir/policy.d, then:"
say "  weir check /etc/weir/policy.d/*"
say "  weir apply --confirm 60 /etc/weir/policy.d/* && weir confirm"
say "  systemctl daemon-reload && systemctl enable weir     # the same at every boot"
