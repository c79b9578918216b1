#!/usr/bin/env bash
# The outputs that the book shows are those of the program.
#
#   scripts/book_outputs.sh          runs the program, and fails where the book shows something else; root
#   scripts/book_outputs.sh renew    writes what the program says into the book
#
# A block of the book belongs to a run if <!-- run NAME --> stands in the line before it. Compared is what does not
# differ from run to run: keys, times and rates are masked on both sides. Where `figures` names the run so are all figures,
# and counters and the news of a moment are left out.
#
# It sees a machine of its own: two boxes, two machines and a switch in network namespaces, and directories of its own
# in the places of /etc/frameward, /var/lib and /run. All of it ends with the script.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-compare}
[[ $mode == compare || $mode == renew ]] || { echo "usage: scripts/book_outputs.sh [renew]" >&2; exit 2; }
((EUID == 0)) || { echo "book outputs: root is needed, for network namespaces" >&2; exit 1; }

if [[ -z ${BOOK_OUTPUTS_INSIDE:-} ]]; then
    cargo build --quiet --locked --package frameward
    program=$(realpath "${CARGO_TARGET_DIR:-target}/debug")
    exec unshare --mount --propagation private env BOOK_OUTPUTS_INSIDE=1 PATH="$program:$PATH:/usr/sbin:/sbin" "$0" "$mode"
fi

book=docs/book/src
scratch=$(mktemp -d)
pids=()
finish() {
    ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
    wait
    umount --lazy /etc 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT

# --- The machine -----------------------------------------------------------------------------------------------------

mkdir "$scratch/out"
cp -a /etc "$scratch/etc"
mount --bind "$scratch/etc" /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir /run/netns /run/frameward /var/lib/frameward
mkdir -p /etc/frameward
if ! getent passwd frameward >/dev/null; then
    echo "frameward:x:64999:64999::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
    echo "frameward:x:64999:" >>/etc/group
fi

# Two boxes with a machine each, and a switch between them. MTUs of the protected side and of the switch.
network() {
    local protected=$1 switch=$2 box
    for namespace in a b machine-a machine-b switch; do
        ip netns del $namespace 2>/dev/null || true
        ip netns add $namespace
        [[ $namespace == [ab] ]] || ip netns exec $namespace sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    done
    ip -n switch link add br0 type bridge mcast_snooping 0
    ip -n switch link set br0 type bridge group_fwd_mask "$3"
    for box in a b; do
        ip -n $box link add enp1s0 address 02:00:00:00:01:0$box type veth peer name eth0 address 02:00:00:00:02:0$box netns machine-$box
        ip -n $box link add enp2s0 address 02:00:00:00:00:0$box mtu "$protected" type veth peer name to-$box netns switch
        ip -n switch link set to-$box master br0 mtu "$switch" up
        ip -n machine-$box link set eth0 up
        ip -n machine-$box address add "192.0.2.$([[ $box == a ]] && echo 1 || echo 2)/24" dev eth0
        ip netns exec machine-$box ethtool -K eth0 tx off txvlan off >/dev/null 2>&1 || true
        ip -n $box link set enp1s0 up
        ip -n $box link set enp2s0 up
        rm -rf "${scratch:?}/$box"
        mkdir -p "$scratch/$box"/{etc,lib,run,home}
        chown -R frameward: "$scratch/$box"
        chmod 700 "$scratch/$box/lib"
    done
    ip -n switch link set br0 up promisc on
}

# A command on a box, with the box's /etc/frameward. Takes the place of the shell that it is called in.
become() {
    local name=$1
    shift
    exec ip netns exec "$name" unshare --uts bash -c '
        mount --bind "$1/etc" /etc/frameward
        mount --bind "$1/lib" /var/lib/frameward
        mount --bind "$1/run" /run/frameward
        echo "box-${1##*/}" >/proc/sys/kernel/hostname
        cd "$1/home"
        shift
        exec "$@"' box "$scratch/$name" "$@"
}

box() { (become "$@"); }

# Shows a command and what it says, as on the box's terminal.
show() {
    local name=$1
    shift
    echo "box${name^^}\$ sudo $*"
    box "$name" "$@" 2>&1 || true
}

start() {
    become "$1" frameward run "/etc/frameward/$2.toml" >"$scratch/$1.log" 2>&1 &
    pids+=($!)
}

stop() {
    ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
    wait
    pids=()
}

# Waits until a box's status has such a line.
await() {
    local name=$1 words=$2
    for _ in {1..150}; do
        if box "$name" frameward status 2>/dev/null | grep -q -- "$words"; then return; fi
        sleep 0.1
    done
    echo "book outputs: box $name never says: $words" >&2
    box "$name" frameward status >&2 || true
    cat "$scratch/$name.log" >&2
    exit 1
}

# Saves what a run says, under its name: without what was measured of this CPU, and without the name of this kernel.
save() { sed -E '/^  (cipher suites|suites|antedate|speed) |; consider /d; s/Linux ([0-9]+\.[0-9]+)[^ :]*/Linux \1/' >"$scratch/out/$1"; }

# A configuration out of the book: the block with such a number of a page.
configuration() {
    awk -v wanted="$2" '/^```toml/ { inside = ++n == wanted; next } /^```/ { inside = 0 } inside' "$book/$1"
}

# A file of the book's inventory: the block of a page behind such a mark.
inventory() {
    awk -v mark="<!-- inventory $2 -->" '$0 == mark { found = 1; next } found && /^~~~/ { if (inside) exit; inside = 1; next } inside' "$book/$1"
}

# --- The runs --------------------------------------------------------------------------------------------------------

# Runs whose every figure differs: counters, times, speeds.
figures=(status start-status mka-status static-verdict inspect-bad)

first_link() {
    network 1532 1532 8
    show a frameward init link --plain enp1s0 --protected enp2s0 --name press | save start-init-a
    cp -a "$scratch/a/etc/press.bundle" "$scratch/b/home/"
    show b frameward init link --join press.bundle --plain enp1s0 --protected enp2s0 | save start-init-b
    start a press
    start b press
    await a PROTECTING
    await b PROTECTING
    ping 3
    # What was discarded before the keys were there counts for ten seconds.
    await a "valid frames come"
    show a frameward status press | save status
    sed -n '1,2p; /^link /,/^  protected /{/^    /!p}' "$scratch/out/status" | save start-status
    sed -n '/^  SecY/,/fragment /p' "$scratch/out/status" | save mka-status
    stop
}

static_link() {
    network 1500 1500 0
    {
        show a frameward keygen static --out /etc/frameward/from-a.key
        show b frameward keygen static --out /etc/frameward/from-b.key
    } | save keygen-static
    cp "$scratch/a/etc/from-a.key" "$scratch/b/etc/"
    cp "$scratch/b/etc/from-b.key" "$scratch/a/etc/"
    configuration static-keys.md 1 >"$scratch/a/etc/press.toml"
    configuration static-keys.md 2 >"$scratch/b/etc/press.toml"
    chown frameward: "$scratch"/[ab]/etc/*
    show a frameward check /etc/frameward/press.toml | save static-check

    # Box B has another key for box A.
    box b frameward keygen static --out /etc/frameward/other.key >/dev/null
    sed -i 's/from-a.key/other.key/' "$scratch/b/etc/press.toml"
    chown frameward: "$scratch/b/etc/other.key"
    start a press
    start b press
    await a gateway
    await b gateway
    ping 12
    await b "keys differ"
    box b frameward status press | sed -n '/^link /p; /keys differ/p' | save static-verdict
    stop

    sed -i 's/other.key/from-a.key/' "$scratch/b/etc/press.toml"
    start a press
    start b press
    await a gateway
    await b gateway
    tap &
    local tapping=$!
    pids+=($tapping)
    sleep 0.5
    ping 16
    wait $tapping
    sed -i 's/^concatenate.*/&\nreplay_window = 64/' "$scratch/a/etc/press.toml"
    show a frameward reload --dry-run press-a | save reload-dry-run
    stop

    broken
    {
        echo "sudo tcpdump -i br0 -s 0 -w press.pcap ether proto 0x88e5"
        echo "sudo frameward inspect press.pcap --keys /etc/frameward/press.toml --bad"
        box a frameward inspect /etc/frameward/press.pcap --keys /etc/frameward/press.toml --bad 2>&1 || true
    } | save inspect-bad
}

# Frames from machine A to machine B, whether they are answered or not.
ping() { ip netns exec machine-a ping -q -c "$1" -i 0.2 -W 1 192.0.2.2 >/dev/null || true; }

# Twenty frames that the switch carries, or those of half a minute.
tap() {
    ip netns exec switch python3 - "$scratch/a/etc/press.pcap" <<'PYTHON'
import socket, struct, sys, time
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88e5))
port.bind(("br0", 0))
port.settimeout(0.2)
begin = time.time()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    count = 0
    while count < 20 and time.time() < begin + 30:
        try: frame, address = port.recvfrom(65535)
        except TimeoutError: continue
        now, count = time.time() - begin, count + 1
        file.write(struct.pack("<IIII", int(now), int(now % 1 * 1e6), len(frame), len(frame)) + frame)
PYTHON
}

# An attacker between the gateways: the second frame comes again, and an octet of the last one is another one.
broken() {
    python3 - "$scratch/a/etc/press.pcap" <<'PYTHON'
import struct, sys
data = open(sys.argv[1], "rb").read()
head, rest, records = data[:24], data[24:], []
while rest:
    seconds, micros, length, _ = struct.unpack("<IIII", rest[:16])
    records.append((seconds, micros, rest[16:16 + length]))
    rest = rest[16 + length:]
records = [record for record in records if record[2][6:12] == records[0][2][6:12]][:8]
seconds, micros, frame = records.pop()
records.append((seconds, micros, frame[:-1] + bytes([frame[-1] ^ 1])))
records.append((seconds + 1, micros, records[1][2]))
with open(sys.argv[1], "wb") as file:
    file.write(head)
    for seconds, micros, frame in records:
        file.write(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)
PYTHON
}

keys() {
    network 1500 1500 0
    show a frameward keygen cak --out /etc/frameward/line.cak | save keygen-cak
    {
        show a frameward keygen site --out /etc/frameward/dresden.key | sed 's/^boxA/boxD/'
        show b frameward keygen site --out /etc/frameward/berlin.key
    } | save keygen-site
    {
        show a frameward keygen fieldbus --out /etc/frameward/cell-4.key
        show a frameward keygen cak --out /etc/frameward/cell.cak
    } | save keygen-cell
    ip -n a link set enp1s0 name enp3s0
    configuration sites.md 1 >"$scratch/a/etc/dresden.toml"
    box a frameward keygen cak --out /etc/frameward/plants.cak >/dev/null
    box a frameward check --offline /etc/frameward/dresden.toml 2>&1 | sed -n '/  path  /,/plain  /p' | save site-check
}

doctors() {
    network 1600 1500 0
    box a frameward keygen static --out /etc/frameward/from-a.key >/dev/null
    box b frameward keygen static --out /etc/frameward/from-b.key >/dev/null
    cp "$scratch/a/etc/from-a.key" "$scratch/b/etc/"
    cp "$scratch/b/etc/from-b.key" "$scratch/a/etc/"
    configuration static-keys.md 1 | grep -v "^fragment\|^concatenate" >"$scratch/a/etc/press.toml"
    configuration static-keys.md 2 | grep -v "^fragment\|^concatenate" >"$scratch/b/etc/press.toml"
    chown frameward: "$scratch"/[ab]/etc/*
    become b frameward doctor /etc/frameward/press.toml >/dev/null 2>&1 &
    local other=$!
    pids+=($other)
    show a frameward doctor /etc/frameward/press.toml | uniq | save doctor
    wait $other || true
    pids=()
}

# What is the same on every machine: the measured columns are not.
budget() {
    {
        echo "boxA\$ frameward plan --cycle 1ms --link 100M --load 0.5 --payload 44..1444"
        { box a frameward plan --quick --protect encrypt --cycle 1ms --link 100M --load 0.5 --payload 44..1444 2>/dev/null || true; } |
            sed -n '/on the  /,/^$/{/./p}' | cut -c 1-32
    } | save plan
}

# The inventory of the book, on the controller: it needs no network.
fleet() {
    local controller="$scratch/controller"
    mkdir -p "$controller/inventory"
    inventory fleet.md plant.toml >"$controller/inventory/plant.toml"
    says() {
        echo "controller\$ $*"
        (cd "$controller" && "$@" 2>&1) || true
    }
    {
        says frameward fleet plan inventory --against rendering
        says frameward fleet render inventory --to rendering
    } | save fleet-plan
    sed -i 's/^suite .*/&\nreplay_window = 64/' "$controller/inventory/plant.toml"
    says frameward fleet plan inventory --against rendering | save fleet-render
    sed -i 's/= 64/= -1/; s/"cabinet-1"\]/"cabinet"]/' "$controller/inventory/plant.toml"
    {
        says frameward fleet render inventory --to rendering
        sed -i 's/"cabinet"\]/"cabinet-1"]/; s/template = "box"/tmplate = "box"/' "$controller/inventory/plant.toml"
        says frameward fleet render inventory --to rendering
        sed -i 's/tmplate/template/' "$controller/inventory/plant.toml"
        says frameward fleet render inventory --to rendering
    } | save fleet-mistakes
}

# --- The book --------------------------------------------------------------------------------------------------------

mask() {
    local name=$1
    sed -E '
        s/[0-9a-f]{16,}/HEX/g
        s/(^|[^0-9a-f:])[0-9]{2}:[0-9]{2}:[0-9]{2}($|[^0-9a-f:])/\1TIME\2/g
        s/Linux [0-9.]+/Linux RELEASE/
        s/[0-9][0-9.,]* (ns|us|µs|ms|s|MiB|KiB|MB|Mbit\/s)\b/N \1/g
        s/^  (real time|locked memory|workers) .*/  \1/
        s/[0-9]+ (years|days|hours|minutes) at the rate/N at the rate/
        s/ +/ /g' | if [[ " ${figures[*]} " == *" $name "* ]]; then
            sed -E '/^ +[A-Z][A-Za-z]+ +[0-9]+$/d; /^ +[N0-9.]+ (s|seconds|minutes) ago /d; s/[0-9]+([.,][0-9]+)*/N/g'
        else
            cat
        fi
}

# The names of the runs that a page shows.
shown() { sed -nE 's/^<!-- run ([a-z-]+) -->$/\1/p' "$1"; }

# What a page shows for a run.
block() { awk -v mark="<!-- run $2 -->" '$0 == mark { found = 1; next } found && /^```/ { if (inside) exit; inside = 1; next } inside' "$1"; }

renew() {
    awk -v mark="<!-- run $2 -->" -v file="$scratch/out/$2" '
        $0 == mark { found = 1; print; next }
        found && /^```/ && !inside { inside = 1; print; while ((getline line < file) > 0) print line; next }
        inside && /^```/ { inside = found = 0 }
        !inside' "$1" >"$scratch/page"
    cat "$scratch/page" >"$1"
}

keys
budget
fleet
static_link
doctors
first_link

breaches=0 blocks=0
for page in "$book"/*.md; do
    for name in $(shown "$page"); do
        blocks=$((blocks + 1))
        if [[ ! -s $scratch/out/$name ]]; then
            echo "book outputs: $page shows $name, and there is no such run, or it said nothing" >&2
            breaches=$((breaches + 1))
        elif ! difference=$(diff -U1 --label "$page" --label "the program" <(block "$page" "$name" | mask "$name") <(mask "$name" <"$scratch/out/$name")); then
            if [[ $mode == renew ]]; then
                renew "$page" "$name"
                echo "book outputs: $page: $name is new"
            else
                printf 'book outputs: %s: the program says something else for %s:\n%s\n' "$page" "$name" "$difference" >&2
                breaches=$((breaches + 1))
            fi
        fi
    done
done
# A mask that hides everything would let everything pass.
for run in "$scratch"/out/*; do
    if (($(mask "$(basename "$run")" <"$run" | grep -c .) * 3 < $(grep -c . "$run"))); then
        echo "book outputs: less than a third of $(basename "$run") is compared" >&2
        breaches=$((breaches + 1))
    fi
done
for run in "$scratch"/out/*; do
    grep -qx -- "<!-- run $(basename "$run") -->" "$book"/*.md || { echo "book outputs: no page shows $(basename "$run")" >&2; breaches=$((breaches + 1)); }
done
if ((breaches)); then
    echo "book outputs: $breaches breaches; scripts/book_outputs.sh renew writes what the program says" >&2
    exit 1
fi
echo "book outputs: fine: $blocks outputs"
