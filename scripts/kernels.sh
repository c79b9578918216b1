#!/usr/bin/env bash
# Tests on the kernels of Debian 12 and 13, in an emulated PC. Its root is this machine's file tree, read only, so what is built
# here runs there, with the programs that are installed here. Needs no root, no KVM, and changes nothing on this machine.
#
#   scripts/kernels.sh                   every test below, on each kernel
#   scripts/kernels.sh SUITE LINE...     lines of shell, one after the other, on the kernel of Debian's bookworm or trixie
#
# scripts/setup.sh kernels fetches the kernels. A line may take 15 minutes, a guest 60; then it is ended, and has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
kernels=$PWD/target/kernels
line_seconds=900
guest_seconds=3600

fail() {
    printf 'kernels: %s\n' "$@" >&2
    exit 1
}

# The archive that the guest begins with: a shell, what mounts the root, and the first process.
pack() {
    local root=$1 release=$2 into=$3 module
    mkdir -p "$into"/{bin,modules,dev,proc,root}
    cp "$root"/bin/busybox "$into/bin/" 2>/dev/null || cp "$root/usr/bin/busybox" "$into/bin/"
    cp scripts/kernels/first.sh "$into/init"
    chmod 755 "$into/init"
    # In the order in which they need each other.
    for module in virtio_pci 9pnet_virtio 9p; do
        modprobe --dirname "$root" --set-version "$release" --show-depends "$module"
    done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' | while read -r file; do
        case $file in
        *.xz) xz -dc "$file" >"$into/modules/$(basename "$file" .xz)" ;;
        *.zst) zstd -dcq "$file" >"$into/modules/$(basename "$file" .zst)" ;;
        *) cp "$file" "$into/modules/" ;;
        esac
        basename "$file" | sed 's/\.\(xz\|zst\)$//' >>"$into/modules/order"
    done
    (cd "$into" && find . | cpio --quiet -o -H newc) >"$into.cpio"
}

# Runs the lines of a file in a guest. True if each of them was.
guest() (
    suite=$1 lines=$2
    [[ -e $kernels/$suite/release ]] || fail "there is no kernel of $suite: scripts/setup.sh kernels"
    release=$(<"$kernels/$suite/release") root=$kernels/$suite/root
    place=$(mktemp -d "$kernels/guest.XXXXXX")
    trap 'rm -r "$place"' EXIT
    pack "$root" "$release" "$place/first"
    cp "$lines" "$place/lines"
    echo "=== Linux $release ($suite)"
    # The guest ends by itself; one that hangs is ended from here, and a panic ends it too. The emulated CPUs take turns: on threads
    # of their own QEMU 7.2 lets one run half of an instruction that the other is patching (Oops: int3). No KVM: where there is a
    # /dev/kvm, an ordinary kernel need not boot under it.
    timeout --foreground "$guest_seconds" qemu-system-x86_64 -accel tcg,thread=single -cpu max -smp 2 -m 2048 \
        -nodefaults -no-user-config -no-reboot -display none -serial stdio -serial "file:$place/results" \
        -kernel "$root/boot/vmlinuz-$release" -initrd "$place/first.cpio" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
        -append "console=ttyS0 quiet loglevel=3 panic=-1 REPOSITORY=$PWD PLACE=$place MODULES=$root LIMIT=$line_seconds" \
        </dev/null | sed -u 's/\r$//' || echo "kernels: the guest was ended after $guest_seconds seconds, or did not start" >&2
    tr -d '\r' <"$place/results" >"$place/said"
    echo "=== Linux $release ($suite):"
    grep -v '^end$' "$place/said" || true
    grep -qx end "$place/said" || fail "Linux $release ended before its last line"
    ! grep -q '^FAILED' "$place/said"
)

if (($# > 1)); then
    lines=$(mktemp)
    trap 'rm "$lines"' EXIT
    printf '%s\n' "${@:2}" >"$lines"
    guest "$1" "$lines"
    exit
fi

# Executables of these tests, by cargo's own word.
executables() {
    cargo test --locked "$@" --no-run --message-format=json | jq -r 'select(.executable and .profile.test) | .executable'
}
# All tests of crates/xdp: whether the kernel takes each program, and whether it does what the Rust relations do. Then the gateway
# itself. An emulated CPU is some 20 times slower.
mapfile -t programs < <(executables --package frameward-xdp)
mapfile -t gateway < <(executables --package frameward --test netns)
# Key agreement with wpa_supplicant 2.11, on the newer kernel alone.
mapfile -t agreement < <(executables --package frameward --test interop)
((${#programs[@]} && ${#gateway[@]} == 1 && ${#agreement[@]} == 1)) || fail "the tests do not build"
lines=$(mktemp)
trap 'rm "$lines"' EXIT
for program in "${programs[@]}"; do
    echo "cd $PWD/crates/xdp && PROPTEST_CASES=${PROPTEST_CASES:-8} $program --show-output"
done >"$lines"
echo "cd $PWD/crates/frameward && ${gateway[0]} --ignored --test-threads=1 kernels::" >>"$lines"
failed=()
for suite in bookworm trixie; do
    [[ $suite != trixie ]] || for which in "--skip restarts v2_11" restarts::each_of_three restarts::any_of_three; do
        echo "cd $PWD/crates/frameward && FRAMEWARD_RESTARTS=${FRAMEWARD_RESTARTS:-2} ${agreement[0]} --ignored --show-output --test-threads=2 $which"
    done >>"$lines"
    guest "$suite" "$lines" || failed+=("$suite")
done
((!${#failed[@]})) || fail "failed on: ${failed[*]}"
echo "kernels: fine"
