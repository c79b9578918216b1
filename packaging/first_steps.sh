#!/usr/bin/env bash
# The first steps of the book on the clock: two boxes with a fresh Debian and the package on each, from the installation
# to the first ping between their machines that the link protects.
#
#   packaging/first_steps.sh PACKAGE        root; make first-steps
#
# The boxes are two Debians, booted with systemd in namespaces, the cables veth pairs. What it prints is the time that
# commands take; a person types besides, and carries the bundle.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
package=$(realpath "$1")
. packaging/boot.sh

fail() {
    printf 'first_steps: %s\n' "$*" >&2
    exit 1
}
((EUID == 0)) || fail "root is needed, for namespaces"

scratch=$(mktemp -d /var/tmp/frameward-first.XXXXXX)
machines=()
clean() {
    local machine
    halt "$scratch"
    for machine in "${machines[@]}"; do ip netns del "$machine" || true; done
}
trap clean EXIT

declare -A box=()
on() {
    local first=${box[$1]}
    shift
    inside "$@"
}
for side in A B; do
    debian "$scratch/$side"
    cp "$package" "$scratch/$side/root/frameward.deb"
    boot "$scratch/$side"
    box[$side]=$first
done

# Cables: machine, box A, box B, machine. Machines fill in checksums, as cards of machines do.
ip link add fw$$ type veth peer name fw$$x
ip link set fw$$ netns "${box[A]}" name enp2s0
ip link set fw$$x netns "${box[B]}" name enp2s0
for side in A B; do
    machine=fw$$-$side
    ip netns add "$machine"
    machines+=("$machine")
    ip -n "$machine" link add eth0 type veth peer name port
    ip netns exec "$machine" ethtool -K eth0 tx off >/dev/null
    ip -n "$machine" link set port netns "${box[$side]}" name enp1s0
    ip -n "$machine" link set eth0 up
    for port in enp1s0 enp2s0; do on $side ip link set $port up; done
done
ip -n "fw$$-A" address add 10.9.9.1/24 dev eth0
ip -n "fw$$-B" address add 10.9.9.2/24 dev eth0
ping() { ip netns exec "fw$$-A" ping -q -c 1 -W "$1" 10.9.9.2 >/dev/null; }
! ping 1 || fail "machines reach each other without a gateway"

begin=$EPOCHREALTIME
# One step: its name, and the command. Microseconds are the last six digits.
step() {
    local name=$1 start=${EPOCHREALTIME/./}
    shift
    "$@" >"$scratch/log" 2>&1 || fail "$name: $(cat "$scratch/log")"
    local now=${EPOCHREALTIME/./}
    printf '%7.2f s  %s\n' "$(((now - start) / 10000))e-2" "$name"
}
carry() { (umask 077 && cp "$scratch/A/etc/frameward/press.bundle" "$scratch/B/root/"); }
forget() { on A rm /etc/frameward/press.bundle && on B rm /root/press.bundle; }
# Both within a minute of each other, as the book says; each exits with 1 where there is a problem.
doctors() {
    on A frameward doctor /etc/frameward/press.toml &
    local other=$! status=0
    on B frameward doctor /etc/frameward/press.toml || status=1
    wait $other || status=1
    return $status
}
protected() {
    for _ in {1..200}; do
        ! ping 0.1 || return 0
    done
    return 1
}

step "box A: apt install ./frameward.deb" on A apt-get install -y /root/frameward.deb
step "box B: apt install ./frameward.deb" on B apt-get install -y /root/frameward.deb
step "box A: frameward init link --plain enp1s0 --protected enp2s0 --name press" \
    on A frameward init link --plain enp1s0 --protected enp2s0 --name press
step "carry the bundle to box B" carry
step "box B: frameward init link --join press.bundle --plain enp1s0 --protected enp2s0" \
    on B frameward init link --join /root/press.bundle --plain enp1s0 --protected enp2s0
step "both: rm press.bundle" forget
step "both: frameward doctor /etc/frameward/press.toml" doctors
step "box A: systemctl enable --now frameward@press" on A systemctl enable --now frameward@press
step "box B: systemctl enable --now frameward@press" on B systemctl enable --now frameward@press
step "until the first ping passes" protected
now=${EPOCHREALTIME/./}
printf '%7.2f s  from the package to the first protected ping\n' "$(((now - ${begin/./}) / 10000))e-2"

# It was the link that carried it, and not a bridge.
on A frameward status press >"$scratch/status" || fail "no status: $(cat "$scratch/status")"
grep -q PROTECTING "$scratch/status" || fail "the link does not protect: $(cat "$scratch/status")"
sed -n 's/^ *\(.*PROTECTING.*\)/frameward status: \1/p' "$scratch/status" | head -1
