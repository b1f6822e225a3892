#!/bin/bash
# Enforces the rules of this host when it starts: what weir.service runs.
#
#   weir-boot start     the files of /etc/weir/policy.d as one policy; where they can't be applied,
#                       those that were applied last, and exit status 1
#   weir-boot reload    the files, or what is enforced stays
#   weir-boot stop      nothing is enforced any more
#
# The files may be of any language that weir reads; their names tell the family where the content
# doesn't (rules.v4, rules.v6). WEIR_FILES, WEIR_KEPT, WEIR, WEIR_OPTIONS: where things are.
set -euo pipefail

weir=${WEIR:-weir}
files=${WEIR_FILES:-/etc/weir/policy.d}
kept=${WEIR_KEPT:-/var/lib/weir/last-good}
read -r -a options <<<"${WEIR_OPTIONS:-}"

# The files of a folder, without those that editors and packages leave behind.
files_in() {
    find "$1" -maxdepth 1 -type f ! -name '.*' ! -name '*~' ! -name '*.dpkg-*' ! -name '*.bak' \
        -print0 | sort -z
}

apply() {
    local found
    mapfile -d '' -t found < <(files_in "$1")
    if [ "${#found[@]}" = 0 ]; then
        echo "weir-boot: no files in $1, nothing to enforce" >&2
        return 2
    fi
    "$weir" apply ${options[@]+"${options[@]}"} "${found[@]}"
}

# Keeps the files that were just applied; the folder before is there until the new one is whole.
keep() {
    local fresh="$kept.new"
    rm -rf "$fresh"
    mkdir -p "$fresh"
    files_in "$files" | xargs -0 cp -p -t "$fresh"
    rm -rf "$kept"
    mv "$fresh" "$kept"
}

case "${1:-}" in
start)
    if apply "$files"; then
        keep
    elif [ -d "$kept" ] && apply "$kept"; then
        echo "weir-boot: $files can't be applied; enforced are the rules of last time, $kept" >&2
        exit 1
    else
        echo "weir-boot: nothing could be applied" >&2
        exit 1
    fi
    ;;
reload)
    apply "$files"
    keep
    ;;
stop)
    "$weir" unload ${options[@]+"${options[@]}"}
    ;;
*)
    echo "usage: weir-boot start|reload|stop" >&2
    exit 2
    ;;
esac
