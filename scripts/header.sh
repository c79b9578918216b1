#!/usr/bin/env bash
# The C header of the antedating library, made of crates/antedate-c by cbindgen.
#
#   scripts/header.sh         compares the committed one with what would be made now
#   scripts/header.sh renew   makes it anew
set -euo pipefail
cd "$(dirname "$0")/.."

header=crates/antedate-c/include/antedate.h
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Without --no-deps, cargo would fetch what other systems' builds depend on.
cargo metadata --format-version 1 --no-deps --locked --offline >"$made/metadata.json"
cbindgen --quiet --config crates/antedate-c/cbindgen.toml --crate frameward-antedate-c --metadata "$made/metadata.json" \
    --lockfile Cargo.lock --output "$made/antedate.h" crates/antedate-c

case ${1:-check} in
check)
    # Other versions put the same declarations in another order, with other blanks.
    if [[ $(cbindgen --version) == "cbindgen 0.24."* ]]; then
        compared() { cat "$1"; }
    else
        compared() { tr -s ' ' <"$1" | sort; }
    fi
    diff -u <(compared "$header") <(compared "$made/antedate.h") || {
        echo "header: $header is not what crates/antedate-c says; scripts/header.sh renew makes it anew" >&2
        exit 1
    }
    echo "header: fine"
    ;;
renew) cp "$made/antedate.h" "$header" ;;
*)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
