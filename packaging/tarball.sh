#!/usr/bin/env bash
# Makes the tarball of the static program, to be unpacked in /usr/local of any Linux: docs/releasing.md.
#
#   packaging/tarball.sh BINARY DIRECTORY       e.g. target/package/x86_64-unknown-linux-musl/release/frameward target/static
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 2)); then
    echo "usage: packaging/tarball.sh BINARY DIRECTORY" >&2
    exit 2
fi
binary=$1 directory=$2
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
! readelf --program-headers "$binary" | grep INTERP >/dev/null || {
    echo "tarball: $binary is not static; scripts/release_build.sh x86_64-unknown-linux-musl builds one" >&2
    exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
name=frameward_${version}_x86_64-musl
packaging/stage.sh "$binary" x86_64-unknown-linux-musl "$scratch/$name"
# Nothing is executed outside of it: it needs no library.
sed -i 's|/usr/lib/frameward/frameward|/usr/local/lib/frameward/frameward|; s|^ExecPaths=.*|ExecPaths=/usr/local/lib/frameward|' \
    "$scratch/$name/lib/systemd/system/frameward@.service"
install -m 644 LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$scratch/$name/share/doc/frameward/"

mkdir -p "$directory"
tar --create --directory "$scratch" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -9n >"$directory/$name.tar.gz"
echo "$directory/$name.tar.gz"
