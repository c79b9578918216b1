#!/usr/bin/env bash
# Makes the Debian package out of a built program.
#
#   packaging/deb.sh BINARY ARCHITECTURE DIRECTORY      e.g. target/release/frameward amd64 target/debian
#
# Plain dpkg-deb: one program, one unit and four documents need neither debhelper nor another tool of Rust's. The
# same source makes the same package, octet for octet, if SOURCE_DATE_EPOCH is set; it is the last commit's time.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 3)); then
    echo "usage: packaging/deb.sh BINARY ARCHITECTURE DIRECTORY" >&2
    exit 2
fi
binary=$1 architecture=$2 directory=$3
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

head -1 packaging/debian/changelog | grep -qF "($version)" || {
    echo "deb: packaging/debian/changelog does not begin with version $version; add an entry" >&2
    exit 1
}
case $architecture in
amd64) tools="" run=() ;;
arm64) tools=aarch64-linux-gnu- run=(qemu-aarch64 -L /usr/aarch64-linux-gnu) ;;
*)
    echo "deb: no tools are known for $architecture; use amd64 or arm64" >&2
    exit 2
    ;;
esac
[[ $(dpkg --print-architecture) != "$architecture" ]] || { tools="" run=(); }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022
chmod 755 "$root"
doc=$root/usr/share/doc/frameward
install -d "$root/DEBIAN" "$root/etc/frameward" "$doc/examples" "$root/usr/share/man/man1" "$root/usr/share/man/man5" \
    "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d"
install -D -m 755 "$binary" "$root/usr/bin/frameward"
"${tools}strip" --strip-unneeded --remove-section=.comment "$root/usr/bin/frameward"
install -D -m 644 packaging/frameward@.service "$root/usr/lib/systemd/system/frameward@.service"
install -m 644 packaging/press-line.toml "$doc/examples/press-line.toml"
install -m 644 packaging/cell.toml "$doc/examples/cell.toml"
install -m 644 packaging/own-user.conf "$doc/examples/own-user.conf"
install -m 644 contrib/prometheus/*.yml contrib/grafana/frameward.json tools/wireshark/{frameward,fieldbus}.lua "$doc/examples/"
install -m 644 packaging/debian/copyright "$doc/copyright"
[[ -e target/book/index.html ]] || {
    echo "deb: target/book is missing; make book builds it" >&2
    exit 1
}
cp -r target/book "$doc/book"
find "$doc/book" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
install -m 644 SECURITY.md "$doc/"
gzip -9n <packaging/debian/changelog >"$doc/changelog.gz"

# Manual pages and completions out of the program itself, so that they say what it does.
generated=$root/generated
mkdir "$generated"
"${run[@]}" "$binary" manual "$generated"
for page in "$generated"/*.1; do
    gzip -9n <"$page" >"$root/usr/share/man/man1/$(basename "$page").gz"
done
gzip -9n <"$generated/frameward.toml.5" >"$root/usr/share/man/man5/frameward.toml.5.gz"
# For editors with TOML support: the first line of a configuration names it.
install -d "$root/usr/share/frameward"
"${run[@]}" "$binary" schema >"$root/usr/share/frameward/frameward.schema.json"
install -m 644 "$generated/frameward.bash" "$root/usr/share/bash-completion/completions/frameward"
install -m 644 "$generated/_frameward" "$root/usr/share/zsh/vendor-completions/_frameward"
install -m 644 "$generated/frameward.fish" "$root/usr/share/fish/vendor_completions.d/frameward.fish"
rm -r "$generated"

# The C library that the program asks for: the highest version among its symbols.
glibc=$("${tools}objdump" -T "$root/usr/bin/frameward" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" \
    -e "s/@DEPENDS@/libc6 (>= ${glibc#GLIBC_}), libgcc-s1 (>= 4.2)/" \
    packaging/debian/control.in >"$root/DEBIAN/control"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 0644 "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"

mkdir -p "$directory"
package=$directory/frameward_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
