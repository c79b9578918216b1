#!/usr/bin/env bash
# Looks for orders of threads in which the gateway is wrong, for data races, and for wrong accesses to memory.
#
#   scripts/threads.sh orders     every order of the two ends of an AF_XDP ring; orders of control and a worker around their
#                                 mailboxes (proofs/threads). Both under the memory model (loom). Seconds.
#   scripts/threads.sh races [ARGUMENT...]  tests of the crates that run threads of a gateway, under the thread sanitizer. Needs root for
#                                 network namespaces, and the nightly toolchain with its component rust-src. ARGUMENT: of `cargo
#                                 test` (--test link). Minutes.
#   scripts/threads.sh mutants [WORD]  breaks these line by line; `orders` or `races` has to find each. WORD: those with it in their line.
#                                 Minutes.
#   scripts/threads.sh sources    makes what the manifest of proofs/threads names, and no more.
#   scripts/threads.sh memory     tests of the crates that have unsafe code, under the address sanitizer. Needs the nightly
#                                 toolchain. Minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# Crates with unsafe code, and the one whose maps it reaches.
unsafe=(netdev antedate-c xdp)
# Crates that start threads of a gateway, or share memory between them: workers, control, the disk's thread, managers of sites.
threaded=(netdev pnstore dataplane control sitelink)
host=$(rustc -vV | sed -n 's/^host: //p')
nightly=${FUZZ_TOOLCHAIN:-nightly}

rings() {
    CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom -A warnings" \
        cargo test --locked --package frameward-netdev --lib "$@" searched -- --nocapture
}

version_of_rtrb() {
    sed -n '/^name = "rtrb"/{n;s/.*"\(.*\)"/\1/p}' Cargo.lock
}

# Where the ring of mailboxes stands that the gateway has.
rtrb_of_the_gateway() {
    cargo fetch --quiet --locked
    echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/rtrb-"$(version_of_rtrb)"
}

# The ring of mailboxes with loom's atomics. The patch fails where another version has other lines.
rtrb() {
    rm -rf target/loom/rtrb
    mkdir -p target/loom/rtrb
    cp -r "$(rtrb_of_the_gateway)"/src target/loom/rtrb/
    patch --quiet --directory target/loom/rtrb --strip 1 <proofs/threads/rtrb.patch
    cat >target/loom/rtrb/Cargo.toml <<TOML
[package]
name = "rtrb"
version = "$(version_of_rtrb)"
edition = "2021"
[features]
default = ["std"]
std = []
[dependencies]
loom = "0.7"
TOML
}

mailboxes() {
    CARGO_TARGET_DIR=target/loom RUSTFLAGS="-A warnings" \
        cargo test --locked --manifest-path proofs/threads/Cargo.toml --test orders "$@" -- --nocapture
}

orders() {
    rings
    rtrb
    mailboxes
}

# The standard library is built with it, or its locks and channels would not be seen. C is not: what is written there is not seen.
races() {
    local library
    # Tests that measure memory, of which the sanitizer needs more for each that is touched, or time; and a long one of one thread.
    local left_out=(nothing_is_lost_and_memory_stays a_flood_in_the_name_of_a_peer_delays_no_other a_scan_gets_not_one_octet
        two_paths_that_lose_alike_do_not_take_turns)
    library=$(rustc "+$nightly" --print sysroot)/lib/rustlib/src/rust/library
    [[ -e $library/Cargo.lock ]] || {
        echo "threads: the sources of the standard library are missing: rustup component add rust-src --toolchain $nightly" >&2
        exit 1
    }
    # Simulations and properties have one thread, and are here for their threads' sake alone.
    CARGO_TARGET_DIR=target/races RUSTFLAGS="-Zsanitizer=thread -A warnings" FRAMEWARD_SEEDS=2 PROPTEST_CASES=16 \
        cargo "+$nightly" test -Zbuild-std --locked --target "$host" "${threaded[@]/#/--package=frameward-}" "$@" -- "${left_out[@]/#/--skip=}"
}

# Control and workers over the ring of target/races/rtrb. Fails for a race, or if nothing could be built; a test that fails for want of root
# or time is neither.
races_of_mailboxes() {
    races --config "paths=[\"$PWD/target/races/rtrb\"]" --test link "$@" >target/races/log 2>&1 ||
        ! grep -q -e 'ThreadSanitizer: data race' -e '^error\[' -e '^error: could not compile' target/races/log
}

# search | file | what stands there once | what is put in its place.
mutants() {
    local ring=crates/netdev/src/af_xdp/ring.rs mailbox=crates/dataplane/src/mailbox.rs
    local rtrb=target/loom/rtrb/src threads=proofs/threads/src raced=target/races/rtrb/src
    local mutants=(
        "rings|$ring|self.shared.producer().store(self.next, Ordering::Release)|self.shared.producer().store(self.next, Ordering::Relaxed)"
        "rings|$ring|self.shared.consumer().store(self.next, Ordering::Release)|self.shared.consumer().store(self.next, Ordering::Relaxed)"
        "rings|$ring|self.produced = self.shared.producer().load(Ordering::Acquire)|self.produced = self.shared.producer().load(Ordering::Relaxed)"
        "rings|$ring|return room;
        }
        self.consumed = self.shared.consumer().load(Ordering::Acquire);|return room;
        }
        self.consumed = self.shared.consumer().load(Ordering::Relaxed);"
        "rings|$ring|self.shared.size.saturating_sub(self.next.wrapping_sub(consumed))|self.shared.size + 1 - self.next.wrapping_sub(consumed)"
        "rings|$ring|if self.room(1) == 0 {|if false {"
        "rings|$ring|if self.next == self.produced {
                return None;|if false {
                return None;"
        # Each of the ring's stores and loads without its barrier.
        "mailboxes|$rtrb/lib.rs|self.buffer.tail.store(tail, Ordering::Release)|self.buffer.tail.store(tail, Ordering::Relaxed)"
        "mailboxes|$rtrb/lib.rs|self.buffer.head.store(head, Ordering::Release)|self.buffer.head.store(head, Ordering::Relaxed)"
        "mailboxes|$rtrb/lib.rs|            let head = self.buffer.head.load(Ordering::Acquire);|            let head = self.buffer.head.load(Ordering::Relaxed);"
        "mailboxes|$rtrb/lib.rs|            let tail = self.buffer.tail.load(Ordering::Acquire);|            let tail = self.buffer.tail.load(Ordering::Relaxed);"
        "mailboxes|$rtrb/arc_ring_buffer.rs|fetch_or(IS_ABANDONED, Ordering::Release)|fetch_or(IS_ABANDONED, Ordering::Relaxed)"
        # Nobody is woken for what was sent.
        "mailboxes|$mailbox|self.wake |= sent;|self.wake &= sent;"
        # Nobody is woken for a job that is done.
        "mailboxes|$threads/worker.rs|if ran {|if ran && self.unfinished.is_some() {"
        # A job that is given between two looks is lost.
        "mailboxes|$threads/worker.rs|self.mailbox.is_abandoned() && self.mailbox.is_empty()|self.mailbox.is_empty() && self.mailbox.is_abandoned()"
        # Control wakes the worker before the job is there.
        "mailboxes|$threads/control.rs|let sent = self.mailbox.send(Box::new(Job { figures: AtomicU64::new(0), turns }));
        self.waker.wake();|self.waker.wake();
        let sent = self.mailbox.send(Box::new(Job { figures: AtomicU64::new(0), turns }));"
        # A wake-up before the wait is lost.
        "mailboxes|$threads/socket.rs|while *octets == 0 {|*octets = 0; while *octets == 0 {"
        # The same ring beneath the engine's own threads.
        "races_of_mailboxes|$raced/lib.rs|self.buffer.tail.store(tail, Ordering::Release)|self.buffer.tail.store(tail, Ordering::Relaxed)"
        "races_of_mailboxes|$raced/lib.rs|            let tail = self.buffer.tail.load(Ordering::Acquire);|            let tail = self.buffer.tail.load(Ordering::Relaxed);"
    )
    local missed=0 mutant text
    # Not local: the trap needs both.
    copy=$(mktemp)
    rtrb
    rm -rf target/races/rtrb
    mkdir -p target/races/rtrb
    cp -r "$(rtrb_of_the_gateway)"/{Cargo.toml,src} target/races/rtrb/
    for mutant in "${mutants[@]}"; do
        [[ $mutant == *${1:-}* ]] || continue
        # A bar that belongs to the text has an equals sign behind it; the text of none begins with one.
        local search=${mutant%%|*} rest=${mutant#*|}
        file=${rest%%|*}
        rest=${rest#*|}
        rest=${rest//'|='/$'\x01'}
        local from=${rest%%|*} to=${rest#*|}
        from=${from//$'\x01'/'|='} to=${to//$'\x01'/'|='}
        cp "$file" "$copy"
        trap 'cp "$copy" "$file" && rm "$copy"' EXIT
        text=$(<"$copy")
        local before=${text%%"$from"*}
        [[ $text != "$before" && ${text#*"$from"} != *"$from"* ]] || {
            echo "mutants: not once in $file: $from" >&2
            exit 1
        }
        printf '%s\n' "$before$to${text#"$before$from"}" >"$file"
        $search --no-run >/dev/null 2>&1 || {
            echo "mutants: does not build: $mutant" >&2
            exit 1
        }
        if $search >/dev/null 2>&1; then
            echo "MISSED  $mutant"
            missed=$((missed + 1))
        else
            echo "found   $mutant"
        fi
        cp "$copy" "$file"
    done
    ((!missed))
}

memory() {
    CARGO_TARGET_DIR=target/sanitized RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 \
        cargo "+$nightly" test --locked --target "$host" "${unsafe[@]/#/--package=frameward-}" --lib --tests
}

case ${1:-} in
sources) rtrb ;;
orders) orders ;;
races)
    shift
    races "${@:---tests}"
    ;;
mutants) mutants "${2:-}" ;;
memory) memory ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
