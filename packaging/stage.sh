#!/usr/bin/env bash
# Lays out what the Debian package and the tarball have in common: program, unit, manual, completions, schema, documents.
#
#   packaging/stage.sh BINARY TARGET DIRECTORY      below DIRECTORY/{bin,lib,share}; TARGET e.g. x86_64-unknown-linux-gnu
#
# All times are the commit's, or SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 3)); then
    echo "usage: packaging/stage.sh BINARY TARGET DIRECTORY" >&2
    exit 2
fi
binary=$1 target=$2 stage=$3
[[ -e target/book/index.html ]] || {
    echo "stage: target/book is missing; make book builds it" >&2
    exit 1
}
tools="" run=()
if [[ $target == aarch64-* && $(uname -m) != aarch64 ]]; then
    tools=aarch64-linux-gnu- run=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
fi
umask 022
doc=$stage/share/doc/frameward
# In a directory of its own: the unit lets nothing else of bin/ be executed.
install -D -m 755 "$binary" "$stage/lib/frameward/frameward"
"${tools}strip" --strip-unneeded --remove-section=.comment "$stage/lib/frameward/frameward"
install -d "$stage/bin"
ln -s ../lib/frameward/frameward "$stage/bin/frameward"
install -D -m 644 packaging/frameward@.service "$stage/lib/systemd/system/frameward@.service"
install -d "$doc/examples"
install -m 644 packaging/press-line.toml packaging/cell.toml packaging/own-user.conf packaging/credentials.conf \
    packaging/frameward-rotate.{service,timer} contrib/prometheus/*.yml \
    contrib/grafana/*.json tools/wireshark/{frameward,fieldbus}.lua "$doc/examples/"
cp -r contrib/ansible "$doc/examples/"
find "$doc/examples/ansible" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
install -m 644 SECURITY.md "$doc/"
scripts/licences.sh "$target" | gzip -9n >"$doc/third-party.txt.gz"
cp -r target/book "$doc/book"
find "$doc/book" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +

# Manual pages and completions out of the program itself, so that they say what it does.
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
"${run[@]}" "$binary" manual "$generated"
for page in "$generated"/*.[15]; do
    install -d "$stage/share/man/man${page##*.}"
    gzip -9n <"$page" >"$stage/share/man/man${page##*.}/$(basename "$page").gz"
done
install -D -m 644 "$generated/frameward.bash" "$stage/share/bash-completion/completions/frameward"
install -D -m 644 "$generated/_frameward" "$stage/share/zsh/vendor-completions/_frameward"
install -D -m 644 "$generated/frameward.fish" "$stage/share/fish/vendor_completions.d/frameward.fish"
# For editors with TOML support: the first line of a configuration names it.
install -d "$stage/share/frameward"
"${run[@]}" "$binary" schema >"$stage/share/frameward/frameward.schema.json"
