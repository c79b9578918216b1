#!/usr/bin/env bash
# Has Ansible install the Debian package with the role of contrib/ansible and take the box into a fleet, in a Debian of its own that is
# booted with systemd in namespaces: the gateway gets what the operator applies, and a second run changes nothing.
#
#   packaging/ansible_test.sh PACKAGE     root; the first time it downloads a small Debian with Ansible (mmdebstrap), 5 minutes at most
#
# Nothing of this machine is changed but for target/debian-root-ansible-core-python3-apt.tar, the downloaded system.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(realpath "$1")
. packaging/boot.sh

fail() {
    printf 'ansible_test: %s\n' "$*" >&2
    exit 1
}
((EUID == 0)) || fail "root is needed, for namespaces"

# Not below /tmp: the system that is booted has one of its own.
scratch=$(mktemp -d /var/tmp/frameward-ansible.XXXXXX)
trap 'halt "$scratch"' EXIT
root=$scratch/root
debian "$root" ansible-core,python3-apt
cp -r contrib/ansible "$root/root/ansible"
cp "$package" "$root/root/frameward.deb"
# The operator's program, on the controller, which is the same machine here.
dpkg-deb --extract "$package" "$scratch/controller"
install -m 755 "$scratch/controller/usr/bin/frameward" "$root/root/operator"
install -m 755 packaging/ansible_test_inside.sh "$root/root/inside.sh"
boot "$root"
inside /root/inside.sh || fail "see above; the journal: $(inside journalctl --no-pager -q -t frameward -n 30)"
echo "ansible_test: fine: installed, enrolled, configured by the fleet, and a second run changes nothing"
