#!/usr/bin/env bash
# Builds the program as it is packaged: the same source makes the same file, whatever directory it stands in.
#
#   scripts/release_build.sh TARGET          e.g. x86_64-unknown-linux-gnu; prints where the program is
#   scripts/release_build.sh TARGET bloat    and what it is made of, crate by crate (cargo-bloat)
#
# Stripped it holds no path of this machine. The toolchain has to be the same too: rust-toolchain.toml pins Rust's, and
# the C compiler is that of the Debian on which releases are made (docs/releasing.md).
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$top"

target=${1:-}
case $target in
x86_64-unknown-linux-gnu | x86_64-unknown-linux-musl) ;;
aarch64-unknown-linux-gnu)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    ;;
*)
    echo "usage: scripts/release_build.sh x86_64-unknown-linux-gnu|x86_64-unknown-linux-musl|aarch64-unknown-linux-gnu [bloat]" >&2
    exit 2
    ;;
esac

# Beside the builds of every day: other flags would build these anew each time.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}/package
mkdir -p "$CARGO_TARGET_DIR"
CARGO_TARGET_DIR=$(realpath "$CARGO_TARGET_DIR")
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
sysroot=$(rustc --print sysroot)
commit=$(rustc --version --verbose | sed -n 's/^commit-hash: //p')
# The last that matches counts: the target directory and the registry may stand below the source.
maps=("$top=/frameward" "$CARGO_TARGET_DIR=/target" "$registry=/cargo")
# rustc's working directory is where a link leads.
real=$(realpath -m "$registry")
[[ $real == "$registry" ]] || maps+=("$real=/cargo")
# The same for C. Besides, aegis tunes its code for the CPU that compiles it; what stands here comes behind that.
CFLAGS="-mtune=generic $(printf -- '-ffile-prefix-map=%s ' "${maps[@]}")"
maps+=("$sysroot/lib/rustlib/src/rust=/rustc/$commit")
CARGO_ENCODED_RUSTFLAGS=$(printf -- '--remap-path-prefix\x1f%s\x1f' "${maps[@]}")
CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
export CARGO_ENCODED_RUSTFLAGS CFLAGS
# It also prefers clang wherever there is one.
mkdir -p "$CARGO_TARGET_DIR/path"
ln -sfn /bin/false "$CARGO_TARGET_DIR/path/clang"
export PATH=$CARGO_TARGET_DIR/path:$PATH

if [[ ${2:-} == bloat ]]; then
    exec "$top/target/tools/bin/cargo-bloat" bloat --release --locked --target "$target" --package frameward --bin frameward --crates -n 25
fi
# The build ID would be a hash over debug information too, which differs between directories and is stripped from packages.
# strip cannot take it out: with it goes PT_GNU_RELRO.
cargo rustc --release --locked --target "$target" --package frameward --bin frameward -- -C link-arg=-Wl,--build-id=none
echo "$CARGO_TARGET_DIR/$target/release/frameward"
