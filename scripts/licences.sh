#!/usr/bin/env bash
# Prints the licences of what is linked into the program: each crate with its licence, then every text once.
#
#   scripts/licences.sh TARGET        e.g. x86_64-unknown-linux-gnu
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: scripts/licences.sh TARGET}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Where the sources of each crate are. Macros run in the compiler alone, yet what they write is in the program.
cargo metadata --locked --format-version 1 --filter-platform "$target" |
    jq -r '.packages[] | select(.source) | "\(.name) v\(.version)\t\(.license)\t\(.manifest_path | sub("/Cargo.toml$"; ""))"' |
    LC_ALL=C sort >"$scratch/sources"
cargo tree --locked --package frameward --target "$target" --edges normal --prefix none --format '{p}' |
    sed -E 's/ \(.*//' | LC_ALL=C sort -u | LC_ALL=C join -t $'\t' - "$scratch/sources" >"$scratch/crates"
[[ -s $scratch/crates ]] || {
    echo "licences: no crate is known of $target" >&2
    exit 1
}
echo "Frameward is licensed under MIT or Apache-2.0. It contains these libraries, each under its own licence:"
echo
cut -f1,2 "$scratch/crates" | tr '\t' ' '
# aws-lc-sys and aegis hold C libraries with licences of their own.
while IFS=$'\t' read -r crate _ place; do
    while read -r text; do
        sum=$(sha256sum <"$text" | cut -d' ' -f1)
        printf '%s\n' "$crate ${text#"$place"/}" >>"$scratch/$sum.names"
        cp "$text" "$scratch/$sum.text"
    done < <(find "$place" -maxdepth 5 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' \) \
        ! -name '*.rs' ! -name '*.go' ! -name '*.py' | LC_ALL=C sort)
done <"$scratch/crates"
if [[ $target == *-musl ]]; then
    printf 'musl C library\n' >"$scratch/musl.names"
    cp /usr/share/doc/musl-dev/copyright "$scratch/musl.text"
fi
for names in "$scratch"/*.names; do
    printf '\n%s\n' "======================================================================"
    cat "$names"
    printf '%s\n\n' "----------------------------------------------------------------------"
    cat "${names%.names}.text"
done
