#!/usr/bin/env bash
# Looks for orders of threads in which the gateway is wrong, and for wrong accesses to memory.
#
#   scripts/threads.sh orders     every order of the two ends of an AF_XDP ring, under the memory model (loom). Seconds.
#   scripts/threads.sh mutants    breaks the ring line by line; `orders` has to find each. A minute.
#   scripts/threads.sh memory     tests of the crates that have unsafe code, under the address sanitizer. Needs the nightly
#                                 toolchain. Minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# Crates with unsafe code, and the one whose maps it reaches.
unsafe=(netdev antedate-c xdp)
ring=crates/netdev/src/af_xdp/ring.rs
host=$(rustc -vV | sed -n 's/^host: //p')

orders() {
    CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom -A warnings" \
        cargo test --locked --package frameward-netdev --lib "$@" searched -- --nocapture
}

# What stands there once | what is put in its place.
mutants() {
    local mutants=(
        'self.shared.producer().store(self.next, Ordering::Release)|self.shared.producer().store(self.next, Ordering::Relaxed)'
        'self.shared.consumer().store(self.next, Ordering::Release)|self.shared.consumer().store(self.next, Ordering::Relaxed)'
        'self.produced = self.shared.producer().load(Ordering::Acquire)|self.produced = self.shared.producer().load(Ordering::Relaxed)'
        'return room;
        }
        self.consumed = self.shared.consumer().load(Ordering::Acquire);|return room;
        }
        self.consumed = self.shared.consumer().load(Ordering::Relaxed);'
        'self.shared.size.saturating_sub(self.next.wrapping_sub(consumed))|self.shared.size + 1 - self.next.wrapping_sub(consumed)'
        'if self.room(1) == 0 {|if false {'
        'if self.next == self.produced {
                return None;|if false {
                return None;'
    )
    local missed=0 mutant text
    copy=$(mktemp)
    cp "$ring" "$copy"
    trap 'cp "$copy" "$ring" && rm "$copy"' EXIT
    for mutant in "${mutants[@]}"; do
        text=$(<"$copy")
        local from=${mutant%%|*} to=${mutant#*|}
        local before=${text%%"$from"*}
        [[ $text != "$before" && ${text#*"$from"} != *"$from"* ]] || {
            echo "mutants: not once in $ring: $from" >&2
            exit 1
        }
        printf '%s\n' "$before$to${text#"$before$from"}" >"$ring"
        orders --no-run >/dev/null 2>&1 || {
            echo "mutants: does not build: $mutant" >&2
            exit 1
        }
        if orders >/dev/null 2>&1; then
            echo "MISSED  $mutant"
            missed=$((missed + 1))
        else
            echo "found   $mutant"
        fi
    done
    ((!missed))
}

# Not the thread sanitizer: it takes locks of a standard library that was not built with it for races.
memory() {
    CARGO_TARGET_DIR=target/sanitized RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 \
        cargo "+${FUZZ_TOOLCHAIN:-nightly}" test --locked --target "$host" "${unsafe[@]/#/--package=frameward-}" --lib --tests
}

case ${1:-} in
orders) orders ;;
mutants) mutants ;;
memory) memory ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
