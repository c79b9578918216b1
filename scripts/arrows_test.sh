#!/usr/bin/env bash
# Shows that scripts/arrows.sh can fail: plants each kind of breach in a copy of the workspace and expects it to be told.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

untouched() {
    rm -rf "${copy:?}"/*
    tar -c --exclude=./target --exclude=./fuzz/target --exclude=./fuzz/corpus --exclude=./.git --exclude=./tests/vectors . | tar -x -C "$copy"
}

# expect WORDS: the checks on the copy fail and say so in these words.
expect() {
    local told
    if told=$(scripts/arrows.sh "$copy" 2>&1); then
        echo "arrows_test: not noticed: $1" >&2
        exit 1
    fi
    grep -qF -- "$1" <<<"$told" || {
        printf 'arrows_test: expected "%s", was told:\n%s\n' "$1" "$told" >&2
        exit 1
    }
    untouched
}

depends() { printf '\n[%s.frameward-%s]\npath = "../%s"\n' "$2" "$3" "${4:-$3}" >>"$copy/crates/$1/Cargo.toml"; }

untouched
scripts/arrows.sh "$copy" >/dev/null

depends suite dependencies secy
expect "frameward-suite must not depend on frameward-secy (normal)"
depends wire build-dependencies suite
expect "frameward-wire must not depend on frameward-suite (build)"
depends secy dependencies testkit ../testkit
expect "frameward-secy must not depend on frameward-testkit (normal)"
depends secy dev-dependencies dataplane
expect "frameward-secy must not depend on frameward-dataplane (dev)"
depends config dependencies report
expect "frameward-config must not depend on frameward-report (normal)"
depends config dependencies bench ../bench
expect "frameward-config must not depend on frameward-bench (normal)"
depends frameward dependencies bench ../bench
expect "frameward must not depend on frameward-bench (normal)"
depends report dependencies diagnosis
expect "frameward-report must not depend on frameward-diagnosis (normal)"
depends diagnosis dependencies control
expect "frameward-diagnosis must not depend on frameward-control (normal)"
sed -i 's/^wire.workspace = true$/&\naws-lc-rs.workspace = true/' "$copy/crates/secy/Cargo.toml"
expect "frameward-secy must not depend on aws-lc-rs (normal): ciphers come through frameward-suite"
sed -i 's/^wire.workspace = true$/&\nquinn.workspace = true/' "$copy/crates/tunnel/Cargo.toml"
expect "frameward-tunnel must not depend on quinn (normal): QUIC belongs to frameward-sitelink"
depends fleet dependencies control
expect "frameward-fleet must not depend on frameward-control (normal)"
sed -i 's/^redb.workspace = true$/&\nquinn.workspace = true/' "$copy/crates/fleet/Cargo.toml"
expect "frameward-fleet must not depend on quinn (normal): QUIC belongs to frameward-sitelink"
sed -i 's/^redb.workspace = true$/&\nhpke.workspace = true/' "$copy/crates/fleet/Cargo.toml"
expect "frameward-fleet must not depend on hpke (normal): ciphers come through frameward-suite"
sed -i '/forbid(unsafe_code)/d' "$copy/crates/fleet/src/lib.rs"
expect "crates/fleet/src/lib.rs: #![forbid(unsafe_code)] is missing"
sed -i 's/^wire.workspace = true$/&\ntracing.workspace = true/' "$copy/crates/dataplane/Cargo.toml"
expect "frameward-dataplane must not depend on tracing (normal): the log belongs to frameward"
echo 'pub use aws_lc_rs::aead::AES_128_GCM;' >>"$copy/bench/src/ciphers.rs"
expect "a bare cipher outside bench/src/bare.rs"
echo 'pub fn f() { unsafe { core::hint::unreachable_unchecked() } }' >>"$copy/crates/wire/src/lib.rs"
expect "unsafe outside crates/netdev and crates/antedate-c"
echo '#![allow(unsafe_code, unused)]' >>"$copy/crates/antedate/src/ccm.rs"
expect "unsafe outside crates/netdev and crates/antedate-c"
sed -i '/forbid(unsafe_code)/d' "$copy/crates/xdp/src/lib.rs"
expect "crates/xdp/src/lib.rs: #![forbid(unsafe_code)] is missing"
depends secy dependencies antedate-c
expect "frameward-secy must not depend on frameward-antedate-c (normal)"
sed -i '/no_std/d' "$copy/crates/antedate-c/src/lib.rs"
expect "crates/antedate-c/src/lib.rs: #![no_std] is missing"
echo 'pub fn f() { std::process::abort() }' >>"$copy/crates/antedate-c/src/sizes.rs"
expect "the C face of antedate reaches for std"
sed -i '/no_std/d' "$copy/crates/secy/src/lib.rs"
expect "crates/secy/src/lib.rs: #![no_std] is missing"
sed -i '1a extern crate std;' "$copy/crates/wire/src/id.rs"
expect "a protocol crate reaches for std"
touch "$copy/crates/netdev/src/utils.rs"
expect "no room is called that"
sed -i '/^\[lints\]/,$d' "$copy/crates/lab/Cargo.toml"
expect "[lints] workspace = true is missing"
printf '\n[features]\nfast = []\n' >>"$copy/crates/suite/Cargo.toml"
expect "a protocol crate has feature flags"

echo "arrows_test: every breach is told"
