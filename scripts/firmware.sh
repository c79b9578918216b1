#!/usr/bin/env bash
# Builds the C library of crates/antedate-c for a Cortex-M4 (thumbv7em-none-eabi), and says what a firmware gets of it.
#
# With the distribution's own compiler, whose standard library comes with its source (scripts/setup.sh mcu installs it).
# With rustup it is `rustup target add TARGET` and the same `cargo build` with `--target TARGET`.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh mcu
target=$(realpath -m "${CARGO_TARGET_DIR:-target}/mcu")
PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target \
    /usr/bin/cargo build --quiet --release --locked -Z build-std=core,alloc --target thumbv7em-none-eabi --package frameward-antedate-c
library=$target/thumbv7em-none-eabi/release/libantedate_c.a
echo "firmware: $library"

# Linked as a firmware does it: with nothing but what is called.
linked=$(mktemp -d)
trap 'rm -rf "$linked"' EXIT
for kind in ccm dtls gcm; do
    calls=${kind/dtls/ccm}
    ld.lld -m armelf --gc-sections --no-undefined --entry "antedate_${kind}_init" --undefined "antedate_${calls}_prepare" \
        --undefined "antedate_${calls}_send" -o "$linked/$kind" "$library"
    size "$linked/$kind" | awk -v kind="$kind" 'NR == 2 { printf "firmware: %-4s init, prepare, send: %d octets of code and constants, %d of data\n", kind, $1, $2 + $3 }'
done
