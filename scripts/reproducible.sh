#!/usr/bin/env bash
# Whether two builds make the same files: the packages of this directory, and those of a clone in another one, built later
# and with another CARGO_HOME.
#
#   scripts/reproducible.sh [amd64|arm64|static]...      all of them without arguments; make reproducible
#
# What is not here yet is built first (make deb, deb-arm64, static). The clone holds what is committed, so nothing may be
# changed. At a difference it names the file in the package, and the first octet that differs. FRAMEWARD_CLONE names a
# directory for the clone that is kept, so that a run goes on where another one was interrupted.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$top"

fail() {
    printf 'reproducible: %s\n' "$*" >&2
    exit 1
}
(($#)) || set -- amd64 arm64 static
[[ -z $(git status --porcelain) ]] || fail "there are changes that are not committed; commit them: the other build is of a clone"
makes=() files=()
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
for kind; do
    case $kind in
    amd64) makes+=(deb) files+=("debian/frameward_${version}_amd64.deb") ;;
    arm64) makes+=(deb-arm64) files+=("debian/frameward_${version}_arm64.deb") ;;
    static) makes+=(static) files+=("static/frameward_${version}_x86_64-musl.tar.gz" "static/frameward_${version}_oci-amd64.tar") ;;
    *) fail "usage: scripts/reproducible.sh [amd64|arm64|static]..." ;;
    esac
done

make --no-print-directory "${makes[@]}"

scratch=$(mktemp -d /var/tmp/frameward-reproducible.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
clone=${FRAMEWARD_CLONE:-$scratch/a/directory/of/another/length}
[[ -e $clone ]] || git clone --quiet --no-hardlinks "$top" "$clone"
git -C "$clone" fetch --quiet "$top" HEAD
git -C "$clone" reset --quiet --hard FETCH_HEAD
# Paths of crates are in the program, if they are not mapped; the crates themselves are the same.
cargo=$clone/target/cargo
mkdir -p "$cargo"
ln -sfn "${CARGO_HOME:-$HOME/.cargo}/registry" "$cargo/registry"
ln -sfn "$top/target/tools" "$clone/target/tools"
env -u MAKEFLAGS -u MAKELEVEL -u SOURCE_DATE_EPOCH -u CARGO_TARGET_DIR CARGO_HOME="$cargo" \
    make --no-print-directory -C "$clone" "${makes[@]}"

# One file of both: equal, or the first difference.
compare() {
    local one=$1 other=$2 name=$3
    cmp -s "$one" "$other" && return
    printf 'reproducible: %s: %s\n' "$name" "$(cmp "$one" "$other" 2>&1 | sed 's/^.*differ: //; s/^cmp: //')"
    return 1
}
unpack() {
    mkdir -p "$2"
    case $1 in
    *.deb) dpkg-deb --raw-extract "$1" "$2" ;;
    *) tar -C "$2" -xf "$1" ;;
    esac
}
status=0
for file in "${files[@]}"; do
    if cmp -s "target/$file" "$clone/target/$file"; then
        printf 'reproducible: the same: %s  %s\n' "$(sha256sum <"target/$file" | cut -d' ' -f1)" "${file##*/}"
        continue
    fi
    status=1
    compare "target/$file" "$clone/target/$file" "${file##*/}" || true
    unpack "target/$file" "$scratch/one"
    unpack "$clone/target/$file" "$scratch/other"
    while read -r name; do
        compare "$scratch/one/$name" "$scratch/other/$name" "${file##*/}: $name" || true
    done < <(cd "$scratch/one" && find . -type f | LC_ALL=C sort)
    rm -rf "$scratch/one" "$scratch/other"
done
exit $status
