#!/usr/bin/env bash
# Whether the tarball and the OCI image are what they claim: a program without a library, in an image that tools of others
# read and start; and a link between the two, in network namespaces, with traffic.
#
#   packaging/static_test.sh TARBALL IMAGE       root; skopeo, umoci, crun (scripts/setup.sh static)
set -euo pipefail
cd "$(dirname "$0")/.."
tarball=$(realpath "$1") image=$(realpath "$2")

fail() {
    printf 'static_test: %s\n' "$*" >&2
    exit 1
}
((EUID == 0)) || fail "root is needed, for namespaces"
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)

scratch=$(mktemp -d /var/tmp/frameward-static.XXXXXX)
prefix=fw$$ gateways=()
# Nothing of control groups is tested; crun asks which hierarchy there is, and refuses two at once.
runtime() {
    unshare --mount sh -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"' sh crun --root "$scratch/crun" --cgroup-manager=disabled "$@"
}
clean() {
    local each
    runtime delete --force "$prefix" 2>/dev/null || true
    for each in "${gateways[@]}"; do kill "$each" 2>/dev/null || true; done
    wait
    for each in ma a b mb; do ip netns del "$prefix-$each" 2>/dev/null || true; done
    rm -rf --one-file-system "$scratch"
}
trap clean EXIT

# The tarball.
mkdir "$scratch/local"
tar -C "$scratch/local" --strip-components=1 -xf "$tarball"
program=$scratch/local/bin/frameward
! readelf --program-headers "$program" | grep INTERP >/dev/null || fail "the program asks for a loader"
! readelf --dynamic "$program" | grep NEEDED >/dev/null || fail "the program asks for libraries"
# It fails for some static programs, and says so.
libraries=$(ldd "$program" 2>&1 || true)
[[ $libraries =~ 'statically linked'|'not a dynamic' ]] || fail "ldd: $libraries"
[[ $("$program" version) == "frameward $version" ]] || fail "it is another version: $("$program" version)"
! strings -n 6 "$program" | grep -E "^/(home|root|work|tmp)/" || fail "the program holds paths of the machine that built it"
grep -q '^ExecStart=/usr/local/lib/frameward/frameward ' "$scratch/local/lib/systemd/system/frameward@.service" || fail "the unit starts another program"
# A static program loads no library, so no PKCS#11 module: it says so instead of failing somehow.
told=$("$program" fleet operator --show 'pkcs11:object=a?module-path=/usr/lib/softhsm/libsofthsm2.so' 2>&1) && fail "a static program loads a module"
[[ $told == *"is static and loads no PKCS#11 module; take the Debian package"* ]] || fail "it does not say that it loads no module: $told"
for file in share/man/man1/frameward-run.1.gz share/man/man5/frameward.toml.5.gz share/doc/frameward/{LICENSE-MIT,LICENSE-APACHE,third-party.txt.gz}; do
    [[ -s $scratch/local/$file ]] || fail "no $file in the tarball"
done
zcat "$scratch/local/share/doc/frameward/third-party.txt.gz" | grep '^aws-lc-sys v' >/dev/null || fail "the licences do not name aws-lc-sys"

# The image, read and unpacked by tools of others; each checks the digests.
[[ $(skopeo inspect "oci-archive:$image" | jq -r '.Labels["org.opencontainers.image.version"] + .Architecture') == "${version}amd64" ]] \
    || fail "skopeo: $(skopeo inspect "oci-archive:$image" 2>&1)"
skopeo copy --quiet "oci-archive:$image" "oci:$scratch/layout:$version"
umoci unpack --image "$scratch/layout:$version" "$scratch/bundle" 2>"$scratch/umoci.log" || fail "umoci: $(cat "$scratch/umoci.log")"
cmp "$program" "$scratch/bundle/rootfs/usr/bin/frameward" || fail "the image has another program than the tarball"

# Machine, gateway out of the tarball, gateway in a container, machine.
for each in ma a b mb; do
    ip netns add "$prefix-$each"
    # The container may not write to /proc/sys: docs/releasing.md.
    ip netns exec "$prefix-$each" sh -c 'echo 1 | tee /proc/sys/net/ipv6/conf/*/disable_ipv6 >/dev/null'
done
ip -n "$prefix-a" link add protected type veth peer name protected netns "$prefix-b"
for side in a b; do
    ip -n "$prefix-$side" link add plain type veth peer name eth0 netns "$prefix-m$side"
    ip netns exec "$prefix-m$side" ethtool -K eth0 tx off >/dev/null
    ip -n "$prefix-m$side" link set eth0 up
    ip -n "$prefix-$side" link set plain up
    ip -n "$prefix-$side" link set protected up
done
ip -n "$prefix-ma" address add 10.9.9.1/24 dev eth0
ip -n "$prefix-mb" address add 10.9.9.2/24 dev eth0
ping() { ip netns exec "$prefix-ma" ping -q -c 1 -W "$1" 10.9.9.2 >/dev/null; }
! ping 1 || fail "machines reach each other without a gateway"

# The bundle of box A is in the directory that the container sees.
etc=$scratch/etc
mkdir -m 700 "$etc" "$etc/b"
ip netns exec "$prefix-a" "$program" init link --plain plain --protected protected --name press --dir "$etc" --state "$scratch/state" >"$scratch/init.log" 2>&1 \
    || fail "init link: $(cat "$scratch/init.log")"
mv "$etc/press.bundle" "$etc/b/carried.bundle"
container() {
    jq --argjson words "$(printf '%s\n' "$@" | jq --raw-input . | jq --slurp .)" --arg net "/run/netns/$prefix-b" --arg etc "$etc/b" '
        .process.terminal = false | .process.args = ["/usr/bin/frameward"] + $words
        | (["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE", "CAP_BPF", "CAP_PERFMON", "CAP_IPC_LOCK"]) as $needed
        | .process.capabilities = { bounding: $needed, effective: $needed, permitted: $needed }
        | (.linux.namespaces[] | select(.type == "network")).path = $net
        | .mounts = [.mounts[] | select(.destination != "/sys/fs/cgroup")]
            + [{ destination: "/etc/frameward", type: "bind", source: $etc, options: ["bind", "rw"] }]
        ' <"$scratch/bundle/config.json" >"$scratch/config.json"
    runtime run --config "$scratch/config.json" --bundle "$scratch/bundle" "$prefix"
}
container init link --join carried.bundle --plain plain --protected protected >"$scratch/join.log" 2>&1 || fail "init link --join: $(cat "$scratch/join.log")"
container run --keep-user press.toml >"$scratch/b.log" 2>&1 </dev/null &
gateways+=($!)
# ip netns has made a mount namespace too; the status socket of this machine's own gateways stays.
ip netns exec "$prefix-a" sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' sh "$program" run --keep-user "$etc/press.toml" >"$scratch/a.log" 2>&1 </dev/null &
gateways+=($!)
for _ in {1..100}; do
    ! ping 0.2 || break
done
ping 2 || fail "no ping passes; the tarball's gateway: $(tail -n 5 "$scratch/a.log"); the container's: $(tail -n 5 "$scratch/b.log")"
runtime exec "$prefix" /usr/bin/frameward status press >"$scratch/status" || fail "status: $(cat "$scratch/status")"
grep -q PROTECTING "$scratch/status" || fail "the container does not protect: $(cat "$scratch/status")"
echo "static_test: fine: static, read by skopeo and umoci, and a link between the tarball's program and the container"
