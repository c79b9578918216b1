#!/usr/bin/env bash
# The rows of `frameward-lab bench precompute` that this host cannot measure by itself:
#
#   scripts/precompute.sh mcu [DIRECTORY]     a Cortex-M4 under qemu, which counts instructions: DIRECTORY/mcu.csv
#   scripts/precompute.sh soft [DIRECTORY]    this host with AES in software: DIRECTORY/soft.csv
#   scripts/precompute.sh judge [DIRECTORY]   the Cortex-M4, and fails if it misses a target
#
# The firmware is built with the distribution's own compiler, whose standard library comes with its source (packages
# rustc-web, cargo-web, rust-web-src, lld; scripts/setup.sh mcu installs them). DIRECTORY: target/precompute.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-}
directory=$(realpath -m "${2:-target/precompute}")
mkdir -p "$directory"

complete() {
    [[ $(tail -n 1 "$1") == end ]] || {
        echo "precompute: $1 does not end as it should:" >&2
        tail -n 5 "$1" >&2
        exit 1
    }
    echo "precompute: $1: $(($(wc -l <"$1") - 1)) rows"
}

cortex_m4() {
    scripts/setup.sh mcu
    local target
    target=$(realpath -m "${CARGO_TARGET_DIR:-target}/mcu")
    # Its cargo looks for .cargo/config.toml in the working directory.
    (cd bench/mcu && PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target \
        /usr/bin/cargo build --release --locked)
    timeout 120 qemu-system-arm -M mps2-an386 -cpu cortex-m4 -nographic -semihosting-config enable=on,target=native \
        -icount shift=0 -kernel "$target/thumbv7em-none-eabi/release/frameward-mcu" >"$directory/mcu.csv"
    complete "$directory/mcu.csv"
}

case $what in
mcu) cortex_m4 ;;
judge)
    cortex_m4
    cargo run --quiet --locked --package frameward-perf -- bench precompute --judge --rows "$directory"
    ;;
soft)
    RUSTFLAGS='--cfg aes_backend="soft" --cfg polyval_backend="soft"' CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/soft \
        cargo run --quiet --release --locked --package frameward-precompute >"$directory/soft.csv"
    complete "$directory/soft.csv"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
