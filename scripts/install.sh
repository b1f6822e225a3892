#!/bin/bash
# Installs weir on this machine: program, manual pages, completion, and a unit that enforces the
# rules in /etc/weir/policy.d at boot. Nothing is enabled and nothing enforced by it.
#
#   scripts/install.sh                      into /usr/local, building it where that isn't done yet
#   scripts/install.sh --prefix /usr        somewhere else
#   scripts/install.sh --root FOLDER        all under FOLDER, for packages
#   scripts/install.sh --binary FILE        this program instead of building one
#   scripts/install.sh --tools ipf,ipfstat  also links of these names, where no such program is yet
#   scripts/install.sh --uninstall          takes the files away; rules in /etc/weir stay
#
# A link called ipf, ipfstat, ipftest, ipmon, ipnat, ippool, ipfw, iptables, ip6tables or ipset is
# the command of that name: `ipf -nvf FILE` is `weir ipf -nvf FILE`. A program that is there
# already, anywhere in PATH, is never replaced or hidden.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

prefix=/usr/local root="" binary="" tools="" uninstall=no
known=(ipf ipfstat ipftest ipmon ipnat ippool ipfw iptables ip6tables ipset)
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix | --root | --binary | --tools)
        [ $# -ge 2 ] || die "$1 needs a value"
        case "$1" in
        --prefix) prefix=$2 ;;
        --root) root=$2 ;;
        --binary) binary=$2 ;;
        --tools) tools=${2//,/ } ;;
        esac
        shift 2
        ;;
    --uninstall) uninstall=yes && shift ;;
    *) die "usage: scripts/install.sh [--prefix FOLDER] [--root FOLDER] [--binary FILE]" \
        "[--tools NAME,...] [--uninstall]" ;;
    esac
done

program=$root$prefix/sbin/weir
boot=$root$prefix/lib/weir/boot
manual=$root$prefix/share/man/man1
completion=$root$prefix/share/bash-completion/completions/weir
unit=$root/etc/systemd/system/weir.service

# Whether a path is a link to weir beside it, which this script made.
is_ours() { [ -L "$1" ] && [ "$(readlink "$1")" = weir ]; }

for tool in $tools; do
    [[ " ${known[*]} " = *" $tool "* ]] || die "no command of weir is called $tool: ${known[*]} are"
done

if [ "$uninstall" = yes ]; then
    for tool in "${known[@]}"; do
        ! is_ours "$root$prefix/sbin/$tool" || rm -f "$root$prefix/sbin/$tool"
    done
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

for tool in $tools; do
    link=$root$prefix/sbin/$tool
    is_ours "$link" && continue
    there=$link
    # Packages for another root are not about the programs of this machine.
    [ -e "$link" ] || [ -L "$link" ] || there=$([ -n "$root" ] || command -v "$tool" || true)
    if [ -n "$there" ]; then
        say "$tool is there already ($there): left alone; \`weir $tool\` does the same"
        continue
    fi
    ln -s weir "$link"
done

say "weir is in $prefix/sbin. Put rules into /etc/weir/policy.d, then:"
say "  weir check /etc/weir/policy.d/*"
say "  weir apply --confirm 60 /etc/weir/policy.d/* && weir confirm"
say "  systemctl daemon-reload && systemctl enable weir     # the same at every boot"
