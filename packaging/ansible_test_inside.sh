#!/usr/bin/env bash
# The part of ansible_test.sh that runs in the booted system.
set -Eeuo pipefail
cd /root
trap 'echo "ansible_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR
export LC_ALL=C.UTF-8 HOME=/root

fail() {
    printf 'ansible_test: %s\n' "$*" >&2
    exit 1
}

operator=$(./operator fleet operator --out operator.key | cut -d'"' -f2)
cat >boxes.ini <<END
[frameward]
press ansible_connection=local ansible_python_interpreter=/usr/bin/python3

[frameward:vars]
frameward_package    = /root/frameward.deb
frameward_directory  = /var/lib/frameward/fleet.redb
frameward_operator   = $operator
frameward_identities = /root/identities
END
play() { ansible-playbook --inventory boxes.ini ansible/site.yml "$@"; }
recap() { grep -E '^press +:' played | tr -s ' '; }

# What is missing is told, and nothing is installed.
if play --extra-vars frameward_operator=none >played 2>&1; then fail "a wrong operator is taken: $(cat played)"; fi
grep -q "set frameward_directory, and frameward_operator" played || fail "it is not said what is wrong: $(cat played)"
! command -v frameward >/dev/null || fail "it was installed all the same"

play >played 2>&1 || fail "$(cat played)"
[[ $(frameward --version) == "$(./operator --version)" ]] || fail "another program was installed"
[[ $(stat -c '%U %a' /etc/frameward/press/fleet.key) == "frameward 600" ]] || fail "the identity is not its user's alone"
[[ $(systemctl is-enabled frameward@press) == enabled ]] || fail "it is not started with the box"
cmp identities/press.identity <(runuser -u frameward -- frameward fleet identity /etc/frameward/press/fleet.key) || fail "the operator has another identity"
for _ in {1..100}; do
    ! frameward status press 2>/dev/null | grep -q "no version yet, waits" || break
    sleep 0.2
done
frameward status press | grep "no version yet, waits" >/dev/null || fail "it does not wait: $(frameward status press 2>&1)"

# Once more changes nothing.
play >played 2>&1 || fail "$(cat played)"
[[ $(recap) == *" changed=0 "* ]] || fail "a second run changes something: $(cat played)"

# What the operator applies comes to the box: as its user writes the directory, so does the operator here.
ip link add p1 type veth peer name p2
ip link add n1 mtu 1532 type veth peer name n2 mtu 1532
for one in p1 p2 n1 n2; do ip link set "$one" up; done
mkdir inventory
cat >inventory/plant.toml <<'END'
[gateway.press]
ports = { plain = "p1", protected = "n1" }
[gateway.crane]
ports = { plain = "p1", protected = "n1" }
[[link]]
name     = "line"
gateways = ["press", "crane"]
END
./operator fleet identity crane.key >identities/crane.identity
./operator fleet render inventory --to rendering
./operator fleet apply rendering --signing-key operator.key --identities identities --directory /var/lib/frameward/fleet.redb
chown frameward: /var/lib/frameward/fleet.redb
for _ in {1..300}; do
    shown=$(./operator fleet status --operator "$operator" --identities identities --directory /var/lib/frameward/fleet.redb || true)
    [[ $shown != *"press: version "*", confirmed; heard "* ]] || break
    sleep 0.3
done
[[ $shown == *"press: version "*", confirmed; heard "* ]] || fail "the box has not confirmed: $shown"
frameward status press | grep -x "link line" >/dev/null || fail "the link is not there: $(frameward status press)"

# Another box under the same name is not taken for this one.
./operator fleet identity other.key >identities/press.identity
if play >played 2>&1; then fail "another identity is overwritten: $(cat played)"; fi
grep -q "has another identity than this box" played || fail "it is not said what is wrong: $(cat played)"

# A box whose name was revoked is not taken again.
mv identities/press.identity identities/press.0123.revoked
if play >played 2>&1; then fail "a revoked name is taken: $(cat played)"; fi
grep -q "press was revoked" played || fail "it is not said what is wrong: $(cat played)"
[[ ! -e identities/press.identity ]] || fail "its identity is back"
