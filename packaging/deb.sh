#!/usr/bin/env bash
# Makes the Debian package out of a built program.
#
#   packaging/deb.sh BINARY ARCHITECTURE DIRECTORY
#   e.g. target/package/x86_64-unknown-linux-gnu/release/frameward amd64 target/debian
#
# Plain dpkg-deb: one program, one unit and some documents need neither debhelper nor another tool of Rust's. The same
# source makes the same package, octet for octet: scripts/reproducible.sh compares. Times are the last commit's.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 3)); then
    echo "usage: packaging/deb.sh BINARY ARCHITECTURE DIRECTORY" >&2
    exit 2
fi
binary=$1 architecture=$2 directory=$3
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

head -1 packaging/debian/changelog | grep -qF "($version)" || {
    echo "deb: packaging/debian/changelog does not begin with version $version; add an entry" >&2
    exit 1
}
case $architecture in
amd64) target=x86_64-unknown-linux-gnu tools=x86_64-linux-gnu- ;;
arm64) target=aarch64-unknown-linux-gnu tools=aarch64-linux-gnu- ;;
*)
    echo "deb: no tools are known for $architecture; use amd64 or arm64" >&2
    exit 2
    ;;
esac

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022
chmod 755 "$root"
install -d "$root/DEBIAN" "$root/etc/frameward"
packaging/stage.sh "$binary" "$target" "$root/usr"
install -m 644 packaging/debian/copyright "$root/usr/share/doc/frameward/copyright"
gzip -9n <packaging/debian/changelog >"$root/usr/share/doc/frameward/changelog.gz"

# The C library that the program asks for: the highest version among its symbols.
glibc=$("${tools}objdump" -T "$root/usr/bin/frameward" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
# As dpkg-gencontrol counts it: a directory takes more or less of one file system than of another.
size=$(find "$root/usr" "$root/etc" -type f -printf '%s\n' -o -printf '1\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@SIZE@/$size/" \
    -e "s/@DEPENDS@/libc6 (>= ${glibc#GLIBC_}), libgcc-s1 (>= 4.2)/" \
    packaging/debian/control.in >"$root/DEBIAN/control"
install -m 755 packaging/debian/{preinst,postinst,prerm,postrm} "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 0644 "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"

mkdir -p "$directory"
package=$directory/frameward_${version}_$architecture.deb
# With several threads xz cuts its stream by their number.
dpkg-deb --root-owner-group --threads-max=1 --build "$root" "$package" >/dev/null
echo "$package"
