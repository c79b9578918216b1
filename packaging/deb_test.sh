#!/usr/bin/env bash
# Installs the Debian package into a Debian of its own, which is booted with systemd in namespaces, runs two gateways by
# their unit with traffic between them, and removes and purges it: what is left must be what was there before.
#
#   packaging/deb_test.sh PACKAGE [PREVIOUS]      root; the first time it downloads a small Debian (mmdebstrap), 4 minutes at most
#
# It is also installed over PREVIOUS, the package of the release before, while a link runs. Without one that is the same
# package under an earlier version: it shows what the scripts of the package do, not what a new program makes of old state.
# Nothing of this machine is changed but for target/debian-root.tar, the downloaded system.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(realpath "$1") previous=${2:+$(realpath "$2")}
. packaging/boot.sh

fail() {
    printf 'deb_test: %s\n' "$*" >&2
    exit 1
}
((EUID == 0)) || fail "root is needed, for namespaces"

# Not below /tmp: the system that is booted has one of its own.
scratch=$(mktemp -d /var/tmp/frameward-deb.XXXXXX)
trap 'halt "$scratch"' EXIT
root=$scratch/root
debian "$root"
cp "$package" "$root/root/frameward.deb"
if [[ -z $previous ]]; then
    dpkg-deb --raw-extract "$package" "$scratch/previous"
    sed -i 's/^Version: .*/Version: 0.0.0~previous/' "$scratch/previous/DEBIAN/control"
    previous=$scratch/previous.deb
    dpkg-deb --root-owner-group --build "$scratch/previous" "$previous" >/dev/null
fi
cp "$previous" "$root/root/previous.deb"
install -m 755 packaging/deb_test_inside.sh "$root/root/inside.sh"

boot "$root"
inside /root/inside.sh || fail "see above; the journal: $(inside journalctl --no-pager -q -t frameward -n 30)"
echo "deb_test: fine: installed, ran, upgraded, removed, and nothing left"
