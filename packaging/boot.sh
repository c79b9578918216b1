#!/usr/bin/env bash
# Boots Debian with systemd in namespaces, a container without a container program. To be sourced, by deb_test.sh and
# first_steps.sh; fail() has to be there. Root.
#
#   debian DIRECTORY [MORE] unpacks a small Debian there, with packages MORE; the first time it is downloaded (mmdebstrap), 5 minutes at most
#   boot DIRECTORY          boots it, and waits; `first` is its first process, as this machine counts them
#   inside COMMAND...       runs a command in the one whose first process is `first`
#   halt SCRATCH            ends all that were booted, and everything in them, and removes the directory

debian() {
    local base=${CARGO_TARGET_DIR:-target}/debian-root${2:+-${2//,/-}}.tar
    if [[ ! -e $base ]]; then
        mkdir -p "$(dirname "$base")"
        mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,iproute2,iputils-ping,ethtool,jq${2:+,$2} \
            "${FRAMEWARD_DEBIAN:-bookworm}" "$base.new"
        mv "$base.new" "$base"
    fi
    mkdir "$1"
    tar -C "$1" --numeric-owner -xf "$base"
}

keepers=() groups=()
hierarchy=/sys/fs/cgroup/unified
[[ -d $hierarchy ]] || hierarchy=/sys/fs/cgroup

boot() {
    local root=$1 state="" group keeper script
    script='
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
# systemd leaves that to whoever makes a container. Units get what it mounts for them, such as their credentials, by propagation.
mount --make-rshared /
exec env -i container=frameward-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=0
'
    group=$hierarchy/$(basename "$(dirname "$root")")-$(basename "$root")
    mkdir "$group"
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        root=$root exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup --propagation private \
            bash -euc "$script"
    ) >"$root.boot.log" 2>&1 </dev/null &
    keeper=$!
    keepers+=("$keeper") groups+=("$group")
    first=""
    for _ in {1..150}; do
        first=$(cat "/proc/$keeper/task/$keeper/children" 2>/dev/null | tr -d ' ') || true
        # Before that it still has this machine's root directory.
        [[ -z $first || $(cat "/proc/$first/comm") != systemd ]] || state=$(inside timeout 5 systemctl is-system-running 2>/dev/null) || true
        [[ $state != running ]] || return 0
        sleep 0.2
    done
    fail "systemd did not boot: ${state:-nothing}; $(inside systemctl --failed --plain --no-legend; tail -n 15 "$root.boot.log")"
}

inside() { nsenter --target "$first" --mount --uts --ipc --net --pid --cgroup env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

halt() {
    # The namespaces' first process dies with its keeper, and everything in them with it.
    ((${#keepers[@]} == 0)) || kill -KILL "${keepers[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    local group left
    for _ in {1..50}; do
        left=""
        for group in "${groups[@]}"; do
            [[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [[ ! -d $group ]] || left=1
        done
        rm -rf --one-file-system "$1" 2>/dev/null || true
        [[ -e $1 || $left ]] || break
        sleep 0.1
    done
}
