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
base=${CARGO_TARGET_DIR:-target}/debian-root.tar

fail() {
    printf 'deb_test: %s\n' "$*" >&2
    exit 1
}
((EUID == 0)) || fail "root is needed, for namespaces"

# Not below /tmp: the system that is booted has one of its own.
scratch=$(mktemp -d /var/tmp/frameward-deb.XXXXXX)
root=$scratch/root
keeper=""
hierarchy=/sys/fs/cgroup/unified
[[ -d $hierarchy ]] || hierarchy=/sys/fs/cgroup
group=$hierarchy/$(basename "$scratch")
clean() {
    # The namespaces' first process dies with its keeper, and everything in them with it.
    [[ -z $keeper ]] || kill -KILL "$keeper" 2>/dev/null || true
    wait 2>/dev/null || true
    for _ in {1..50}; do
        [[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
        rm -rf --one-file-system "$scratch" 2>/dev/null || true
        [[ -e $scratch || -d $group ]] || break
        sleep 0.1
    done
}
trap clean EXIT

if [[ ! -e $base ]]; then
    mkdir -p "$(dirname "$base")"
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,iproute2,iputils-ping,ethtool,jq \
        "${FRAMEWARD_DEBIAN:-bookworm}" "$base.new"
    mv "$base.new" "$base"
fi
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$base"
cp "$package" "$root/root/frameward.deb"
if [[ -z $previous ]]; then
    dpkg-deb --raw-extract "$package" "$scratch/previous"
    sed -i 's/^Version: .*/Version: 0.0.0~previous/' "$scratch/previous/DEBIAN/control"
    previous=$scratch/previous.deb
    dpkg-deb --root-owner-group --build "$scratch/previous" "$previous" >/dev/null
fi
cp "$previous" "$root/root/previous.deb"
install -m 755 packaging/deb_test_inside.sh "$root/root/inside.sh"

# A container without a container program: namespaces of all kinds, a cgroup, and systemd as the first process.
boot='
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $place; done
chmod 1777 tmp
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
ln -s pts/ptmx dev/ptmx
mkdir dev/pts dev/shm
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
pivot_root . mnt
umount -l /mnt
exec env -i container=frameward-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=0
'
mkdir "$group"
(
    echo "$BASHPID" >"$group/cgroup.procs"
    root=$root exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup --propagation private \
        bash -euc "$boot"
) >"$scratch/boot.log" 2>&1 </dev/null &
keeper=$!

inside() { nsenter --target "$first" --mount --uts --ipc --net --pid --cgroup env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
first="" state=""
for _ in {1..150}; do
    first=$(cat "/proc/$keeper/task/$keeper/children" 2>/dev/null | tr -d ' ') || true
    # Before that it still has this machine's root directory.
    [[ -z $first || $(cat "/proc/$first/comm") != systemd ]] || state=$(inside timeout 5 systemctl is-system-running 2>/dev/null) || true
    [[ $state != running ]] || break
    sleep 0.2
done
[[ $state == running ]] || fail "systemd did not boot: ${state:-nothing}; $(inside systemctl --failed --plain --no-legend; tail -n 15 "$scratch/boot.log")"

inside /root/inside.sh || fail "see above; the journal: $(inside journalctl --no-pager -q -t frameward -n 30)"
echo "deb_test: fine: installed, ran, upgraded, removed, and nothing left"
