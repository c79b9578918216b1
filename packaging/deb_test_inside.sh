#!/usr/bin/env bash
# The part of deb_test.sh that runs in the booted system.
set -Eeuo pipefail
cd /root
trap 'echo "deb_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR

fail() {
    printf 'deb_test: %s\n' "$*" >&2
    exit 1
}
is() { [[ $2 == "$3" ]] || fail "$1: \"$2\" instead of \"$3\""; }

# Every file with owner, mode and content, but for what dpkg, apt, systemd and the logs write for themselves.
tree() {
    local besides=(-path /root -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /var/lib/systemd -o -path /var/tmp)
    find / -xdev \( "${besides[@]}" \) -prune -o ! -name '*-' -printf '%p %U:%G %m %y %l\n' | LC_ALL=C sort
    find / -xdev \( "${besides[@]}" \) -prune -o -type f ! -name '*-' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}
main_pid() { systemctl show --property MainPID --value "frameward@$1"; }
passes() { ip netns exec ma ping -q -c 3 -i 0.2 -W 2 10.9.9.2 >/dev/null || fail "no ping passes $1"; }
field() { awk -v name="$2:" '$1 == name { print $2 }' "/proc/$(main_pid "$1")/status"; }

tree >before

# Two gateways back to back, a machine behind each.
for side in a b; do
    ip netns add m$side
    ip link add p$side type veth peer name e$side
    ip link set e$side netns m$side
    ip -n m$side link set e$side up
    for place in "" "ip netns exec m$side"; do
        $place ethtool -K "$([[ $place ]] && echo e$side || echo p$side)" tx off txvlan off >/dev/null
    done
    ip link set p$side up
done
ip link add xa mtu 1532 type veth peer name xb mtu 1532
ip link set xa up
ip link set xb up
ip -n ma address add 10.9.9.1/24 dev ea
ip -n mb address add 10.9.9.2/24 dev eb
settings() { for one in pa xa pb xb; do ip -d link show $one; ethtool -k $one; cat /proc/sys/net/ipv6/conf/$one/disable_ipv6; done; }
settings >settings.before

configure() {
    sed -e "s/\"press-line\"/\"$1\"/; s/press-line\"/$1\"/; s/enp1s0/p$1/; s/enp2s0/x$1/; s/own\.key/$1.key/; s/peer\.key/$2.key/" \
        -e "s/:0a\/1/:0$3\/1/; s/:0b\/1/:0$4\/1/" /usr/share/doc/frameward/examples/press-line.toml >/etc/frameward/$1.toml
}

life() {
    dpkg -i frameward.deb >/dev/null
    is "the directory of keys" "$(stat -c '%U:%G %a' /etc/frameward)" "root:frameward 750"
    is "the program" "$(frameward --version)" "frameward $(dpkg-query -W -f '${Version}' frameward)"
    is "gateways after installation" "$(systemctl list-units --all --plain --no-legend 'frameward@*')" ""
    grep -q SIGTERM <(zcat /usr/share/man/man1/frameward-run.1.gz) || fail "the manual of run says nothing"
    grep -q replay_window <(zcat /usr/share/man/man5/frameward.toml.5.gz) || fail "frameward.toml(5) says nothing"
    jq -e '.panels | length > 10' /usr/share/doc/frameward/examples/frameward.json >/dev/null || fail "no dashboard"
    for example in frameward-fleet.rules.yml frameward-fleet.json frameward.rules.yml prometheus.yml frameward.lua fieldbus.lua frameward-rotate.service frameward-rotate.timer credentials.conf; do
        [[ -s /usr/share/doc/frameward/examples/$example ]] || fail "no $example in the package"
    done
    jq -e '.properties.gateway.required == ["name"]' /usr/share/frameward/frameward.schema.json >/dev/null \
        || fail "the JSON Schema says nothing"

    # As a user does it: keys, the example changed, start.
    for side in a b; do frameward keygen static --out /etc/frameward/$side.key >/dev/null; done
    chown frameward: /etc/frameward/*.key
    configure a b 1 2
    configure b a 2 1
    runuser -u frameward -- frameward check /etc/frameward/a.toml >/dev/null
    # As root, on keys that belong to the gateway.
    frameward doctor --local /etc/frameward/a.toml >doctor 2>&1 || true
    grep -qE '^ +ok +keys ' doctor || fail "doctor does not read the keys: $(cat doctor)"
    systemctl enable --quiet --now frameward@a frameward@b
    passes "after the start"
    [[ -s /etc/frameward/used/a.key ]] || fail "the key is not marked as used"
    is "the owner of its memory, which nobody can dump" "$(stat -c %U "/proc/$(main_pid a)/mem")" root
    is "the user" "$(field a Uid)" "$(id -u frameward)"
    is "its filter of system calls" "$(field a Seccomp)" 2
    is "its right to new privileges" "$(field a NoNewPrivs)" 1
    is "its capabilities" "$(field a CapEff)" 0000008000007400
    is "the group of its socket" "$(stat -c %G /run/frameward/a.sock)" frameward-status
    runuser -u nobody -- frameward status a >/dev/null 2>&1 && fail "anybody reads the status"
    runuser -u nobody -G frameward-status -- frameward status a >/dev/null || fail "the group cannot read the status"
    runuser -u nobody -G frameward-status -- frameward reload a >/dev/null 2>&1 && fail "the group can reload"
    frameward status --json a >status.json
    is "locked memory" "$(jq .privileges.locked_memory.granted status.json)" true
    # Nobody has kept a CPU for its workers, so they are ordinary threads; or there is one CPU.
    is "real time" "$(jq .privileges.realtime.granted status.json)" false
    jq -r .privileges.realtime.detail status.json | grep -qE 'cpus = |every CPU' || fail "no cure for real time"
    cmp -s settings.before <(settings) && fail "the interfaces were not prepared"

    # One that hangs is started again by the watchdog.
    mkdir -p /run/systemd/system/frameward@.service.d
    printf '[Service]\nWatchdogSec=1s\n' >/run/systemd/system/frameward@.service.d/test.conf
    systemctl daemon-reload
    systemctl restart frameward@a
    local hung
    hung=$(main_pid a)
    kill -STOP "$hung"
    for _ in {1..300}; do
        [[ $(main_pid a) == "$hung" || $(main_pid a) == 0 ]] || ! systemctl --quiet is-active frameward@a || break
        sleep 0.1
    done
    is "restarts" "$(systemctl show --property NRestarts --value frameward@a)" 1
    rm -r /run/systemd/system/frameward@.service.d
    systemctl daemon-reload
    systemctl restart frameward@a
    passes "after a restart"

    # systemctl reload is SIGHUP, and the gateway says how it went.
    systemctl reload frameward@a
    for _ in {1..100}; do
        ! frameward status --json a | grep -q '"reload"' || break
        sleep 0.1
    done
    frameward status --json a | grep -A2 '"reload"' | grep -q '"done": true' || fail "it was not reloaded"
    passes "after a reload"
    systemctl stop frameward@a frameward@b
    is "the end" "$(systemctl show --property Result --value frameward@a)" success
    cmp settings.before <(settings) || fail "the interfaces are not as before"

    # A CAK that systemd decrypts for the gateway alone. There is no TPM here, so the host's key stands for it.
    frameward init link --plain pa --protected xa --name sealed >/dev/null
    sed -i 's/"sealed\.cak"/"credential:sealed.cak"/' /etc/frameward/sealed.toml
    [[ -d /etc/credstore.encrypted ]] || install -d -m 700 /etc/credstore.encrypted
    systemd-creds encrypt --with-key=host --name=sealed.cak /etc/frameward/sealed.cak /etc/credstore.encrypted/sealed.cak
    rm /etc/frameward/sealed.cak /etc/frameward/sealed.bundle
    systemctl start frameward@sealed 2>/dev/null && fail "a gateway started without its credential"
    systemctl reset-failed frameward@sealed
    local drop_in=/etc/systemd/system/frameward@sealed.service.d
    install -D -m 644 /usr/share/doc/frameward/examples/credentials.conf "$drop_in/credentials.conf"
    systemctl daemon-reload
    systemctl start frameward@sealed || fail "no start with a credential: $(journalctl -q --no-pager -u frameward@sealed -n 5)"
    env CREDENTIALS_DIRECTORY=/run/credentials/frameward@sealed.service frameward check /etc/frameward/sealed.toml >/dev/null \
        || fail "root cannot check a configuration with a credential"
    systemctl stop frameward@sealed
    rm -r "$drop_in" /etc/frameward/sealed.toml /etc/credstore.encrypted/sealed.cak
    grep -q '^/etc/credstore.encrypted ' before || rmdir /etc/credstore.encrypted
    systemctl daemon-reload

    # A wrong configuration is not tried over and over.
    systemctl start frameward@none 2>/dev/null && fail "a gateway without a configuration started"
    is "the exit status" "$(systemctl show --property ExecMainStatus --value frameward@none)" 2
    is "tries" "$(systemctl show --property NRestarts --value frameward@none)" 0
    systemctl reset-failed frameward@none
}

life
# Upgraded while a link runs: it goes on under the new program, and no packet number is used twice, or the other end
# would discard its frames.
dpkg -i previous.deb >downgraded 2>&1 || fail "dpkg -i: $(cat downgraded)"
version=$(dpkg-query -W -f '${Version}' frameward)
[[ $version != "$(dpkg-deb -f frameward.deb Version)" ]] || fail "the previous package has the version of the new one"
systemctl start frameward@a frameward@b
passes "before the upgrade"
dpkg -i frameward.deb >upgraded 2>&1 || fail "dpkg -i: $(cat upgraded)"
is "the version" "$(dpkg-query -W -f '${Version}' frameward)" "$(dpkg-deb -f frameward.deb Version)"
[[ $(readlink "/proc/$(main_pid a)/exe") == /usr/lib/frameward/frameward ]] || fail "the gateway does not run under the new program"
passes "after the upgrade"
systemctl stop frameward@a frameward@b
cmp settings.before <(settings) || fail "the interfaces are not as before, after an upgrade"

# Removed while it runs: it stops, what the administrator made and the leases stay.
systemctl start frameward@a
dpkg -r frameward >removed 2>&1 || fail "dpkg -r: $(cat removed)"
is "gateways after removal" "$(systemctl list-units --plain --no-legend --state=active 'frameward@*')" ""
[[ -e /etc/frameward/a.key && -d /var/lib/frameward/a ]] || fail "removal took keys or leases"
[[ ! -e /run/frameward ]] || fail "/run/frameward is left"
dpkg -P frameward >purged 2>&1 || fail "dpkg -P: $(cat purged)"
grep -q "packet numbers" purged || fail "purge does not say what it means for the keys"
[[ -e /etc/frameward/a.key ]] || fail "purge took the administrator's keys"
[[ ! -e /var/lib/frameward ]] || fail "purge left the leases"

rm -r /etc/frameward/*

# Once more, with nothing of the administrator's left at the end.
life
rm -r /etc/frameward/*
dpkg -P frameward >purged 2>&1 || fail "dpkg -P: $(cat purged)"
tree >after
diff before after >difference || fail "left behind: $(cat difference)"
