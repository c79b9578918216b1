#!/usr/bin/env bash
# Builds for AArch64 with Debian's cross compiler and runs there what needs no network, under qemu-user: unit tests of
# wire, suite, secy and the data path; the program's: configuration, check, keygen.
#
# What it shows: that all compiles, that layouts, ciphers and arithmetic are right on the other CPU. What it does not:
# ports on a real AArch64 kernel (qemu-user passes system calls on to this machine's), and speed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
# Beside the native one: build scripts would be built anew for each change of target.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/arm
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# An emulated CPU is some 20 times slower.
export PROPTEST_CASES=${PROPTEST_CASES:-8}

cargo test --locked --target $target --package frameward-wire --package frameward-suite --package frameward-secy
cargo test --locked --target $target --package frameward-antedate
cargo test --locked --target $target --package frameward-tunnel --package frameward-mka --lib
# Tests that start themselves again in a process of their own are for a kernel that can: see below.
cargo test --locked --target $target --package frameward-netdev --package frameward-pnstore --package frameward-dataplane --package frameward-control --lib --test link -- \
    --skip channel::guard::tests --skip a_panic_inside_of_quic_or_outside
cargo test --locked --target $target --package frameward --lib
# tests/command.rs starts the program itself, which this machine's kernel cannot; so the emulator does.
cargo build --locked --target $target --package frameward
program() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$CARGO_TARGET_DIR/$target/debug/frameward" "$@"; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp packaging/press-line.toml "$scratch/"
for key in own peer; do program keygen static --out "$scratch/$key.key" | grep -E '^fingerprint [0-9a-f]{16}$'; done
program check --offline "$scratch/press-line.toml" | grep 'own SA *SCI 02:00:00:00:00:0a/1'
