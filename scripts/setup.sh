#!/usr/bin/env bash
# Installs what is missing to build, demonstrate and test Frameward. Idempotent, and quick when nothing is missing.
#
#   scripts/setup.sh demo    to build, and for network namespaces with traffic in them
#   scripts/setup.sh test    the same, a Linux kernel with macsec to test against (user-mode-linux, kmod, iperf3), the
#                            key agreement that runs on it (wpasupplicant), what reads the systemd unit, tshark, which
#                            reads what inspect writes, nftables, a browser, Prometheus with its parser, scapy, which builds
#                            PROFINET frames, etcd, SoftHSM, and the tunnels of packages that make bench compares with
#   scripts/setup.sh ci      the same, and what only CI needs: cargo-deny, cargo-fuzz, a nightly toolchain with rust-src, valgrind,
#                            cbindgen, the compiler of the XDP programs, and what mcu and proofs install
#   scripts/setup.sh cross   to build and test for AArch64: cross compiler, emulator, Rust's library for it
#   scripts/setup.sh package to judge and test the Debian package
#   scripts/setup.sh static  to build and test the static program and its OCI image: musl, skopeo, umoci, crun
#   scripts/setup.sh proofs  what proves and searches: z3, Maude
#   scripts/setup.sh bloat   cargo-bloat, from crates.io, into target/tools
#   scripts/setup.sh mcu     to build firmware for a Cortex-M4 and to run it: Debian's Rust with its library's source, a
#                            linker, an emulator
#   scripts/setup.sh book    mdBook, from crates.io, into target/tools
#   scripts/setup.sh bench   the tunnels that ours is compared with: wireguard-go (from the Go module proxy), boringtun and
#                            vpncloud (from crates.io), into target/rivals/bin; fastd, tinc, OpenVPN, WireGuard's tools;
#                            a Linux kernel with macsec (user-mode-linux, kmod); and iperf3. FRAMEWARD_RIVALS=packages
#                            leaves out what would have to be built
#   scripts/setup.sh kernels to test on other kernels: an emulator of a PC, and in target/kernels the kernels of Debian 12
#                            and 13 and a static busybox, unpacked and not installed. x86-64, 1 GB. Remove target/kernels
#                            to have newer ones. Both versions of wpa_supplicant: 2.10 (wpasupplicant), and, unpacked in
#                            target/wpa_supplicant-2.11, that of Debian 14
#
# Packages come from the distribution (apt) and from Rust's own registries (rustup, crates.io), nothing from elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-}
case $profile in
demo | test | ci | cross | package | mcu | bench | book | static | bloat | kernels | proofs) ;;
*)
    echo "usage: scripts/setup.sh demo|test|ci|cross|package|mcu|bench|book|static|bloat|kernels|proofs" >&2
    exit 2
    ;;
esac

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# The command that is looked for, and the Debian package that has it. The crates with C inside (aws-lc-sys, aegis) ask
# for a C compiler and nothing else: no cmake, no clang, no C++.
needs=(cc:gcc ld:binutils ip:iproute2 tc:iproute2 ping:iputils-ping ethtool:ethtool)
# cargo's metadata: licences and the bill of materials of a package.
needs+=(jq:jq)
# Tests of the systemd unit: its groups of system calls, and those that the gateway makes.
[[ $profile != test && $profile != ci ]] || needs+=(systemd-analyze:systemd strace:strace)
# Reads the captures that we write, and runs the dissector.
[[ $profile != test && $profile != ci ]] || needs+=(tshark:tshark)
# Reads the alert rules, and what it is to scrape.
[[ $profile != test && $profile != ci ]] || needs+=(promtool:prometheus)
[[ $profile != cross ]] || needs+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user)
[[ $profile != proofs && $profile != ci ]] || needs+=(z3:z3 maude:maude bc:bc)
[[ $profile != static ]] || needs+=(musl-gcc:musl-tools skopeo:skopeo umoci:umoci crun:crun)
[[ $profile != mcu && $profile != ci ]] || needs+=(/usr/bin/rustc:rustc-web /usr/bin/cargo:cargo-web ld.lld:lld qemu-system-arm:qemu-system-arm)
[[ $profile != bench ]] || needs+=(wg:wireguard-tools)
# Started by tests too: whether each of them carries full frames.
[[ $profile != bench && $profile != test && $profile != ci ]] || needs+=(fastd:fastd tincd:tinc openvpn:openvpn openssl:openssl)
[[ $profile != bench || ${FRAMEWARD_RIVALS:-} == packages ]] || needs+=(go:golang-go)
[[ $profile != package ]] || needs+=(lintian:lintian mmdebstrap:mmdebstrap dpkg-deb:dpkg)
[[ $profile != kernels ]] || needs+=(qemu-system-x86_64:qemu-system-x86 cpio:cpio depmod:kmod xz:xz-utils dpkg-deb:dpkg wpa_supplicant:wpasupplicant)
# A guest with the kernel's macsec driver: the kernel and its modules, insmod, and what machines talk with.
# User-Mode Linux exists for x86 alone; elsewhere the tests that want it fail, and say so.
if [[ $profile == test || $profile == ci || $profile == bench ]]; then
    needs+=(insmod:kmod iperf3:iperf3)
    [[ $(uname -m) != x86_64 ]] || needs+=(linux.uml:user-mode-linux)
fi
# wpa_supplicant runs in the guest alone.
[[ ($profile != test && $profile != ci) || $(uname -m) != x86_64 ]] || needs+=(wpa_supplicant:wpasupplicant)
# A site behind a router that masquerades.
[[ $profile != test && $profile != ci ]] || needs+=(nft:nftables)
# A fleet's directory.
[[ $profile != test && $profile != ci && $profile != bench ]] || needs+=(etcd:etcd-server)
# An operator's signing key in a PKCS#11 token, and a terminal to type its PIN at.
[[ $profile != test && $profile != ci ]] || needs+=(softhsm2-util:softhsm2 pkcs11-tool:opensc script:bsdutils)
# The status page is tested in a real browser.
[[ $profile != test && $profile != ci ]] || needs+=(chromium:chromium)
# The C header of the antedating library is made by it; crate cbindgen itself would be a minute of compiling.
[[ $profile != ci ]] || needs+=(cbindgen:cbindgen)
# The role of contrib/ansible.
[[ $profile != ci ]] || needs+=(ansible-playbook:ansible-core)
# Releases are signed with an SSH key.
[[ $profile != ci ]] || needs+=(ssh-keygen:openssh-client)
# The XDP programs' objects are made by one compiler: scripts/bpf.sh says which.
[[ $profile != ci ]] || needs+=(clang-19:clang-19 llvm-strip-19:llvm-19)
# libFuzzer is C++; valgrind counts instructions.
[[ $profile != ci ]] || needs+=(c++:g++ valgrind:valgrind)

# ip, tc and ethtool stand in /usr/sbin, which is not on every user's PATH.
has() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1; }

install_packages() {
    local need packages=()
    for need in "${needs[@]}"; do
        has "${need%%:*}" || packages+=("${need#*:}")
    done
    # The C library's headers are a package of their own.
    [[ -e /usr/include/stdio.h ]] || packages+=(libc6-dev)
    [[ $profile != cross || -e /usr/aarch64-linux-gnu/include/stdio.h ]] || packages+=(libc6-dev-arm64-cross)
    # The source of the library has no command either.
    [[ ($profile != mcu && $profile != ci) || -e /usr/share/doc/rust-web-src || -e /usr/lib/rustlib/src/rust/library/core/src/lib.rs ]] || packages+=(rust-web-src)
    # A module of the system's Python, which is no command either.
    [[ $profile != test && $profile != ci || -e /usr/lib/python3/dist-packages/prometheus_client ]] \
        || packages+=(python3-prometheus-client)
    [[ $profile != test && $profile != ci || -e /usr/lib/python3/dist-packages/scapy ]] || packages+=(python3-scapy)
    ((${#packages[@]})) || return 0
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    has apt-get || fail "missing: ${packages[*]} (Debian's names), and there is no apt-get here" \
        "install them with this distribution's package manager, then start again"
    ((EUID == 0)) || fail "missing packages: ${packages[*]}" \
        "installing needs root: sudo apt-get install ${packages[*]}"
    echo "setup: installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null
    apt-get install -q -y --no-install-recommends "${packages[@]}" </dev/null
}

install_rust() {
    # Debian has rustup since release 13.
    if ! has cargo && ((EUID == 0)) && has apt-get && apt-cache policy rustup | grep -q 'Candidate: [0-9]'; then
        apt-get install -q -y --no-install-recommends rustup </dev/null
    fi
    has cargo || fail "cargo is missing: install rustup from https://rustup.rs, then start again" \
        "if another user has it: sudo env PATH=\"\$PATH\" HOME=\"\$HOME\" make ..."
    if ! has rustup; then
        # Without rustup the distribution's compiler has to be new enough; cargo says so if it is not.
        echo "setup: no rustup here; building with $(cargo --version), rust-toolchain.toml is not read"
        return
    fi
    # rust-toolchain.toml names the toolchain; this installs it.
    if ! rustc --version >/dev/null 2>&1 || ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        echo "setup: installing the toolchain of rust-toolchain.toml"
        rustup toolchain install
    fi
}

install_ci() {
    has rustup || fail "fuzzing needs a nightly toolchain, and that needs rustup: https://rustup.rs"
    if ! rustup run nightly rustc --version >/dev/null 2>&1; then
        rustup toolchain install nightly --profile minimal \
            || fail "no nightly toolchain: rustup toolchain install nightly --profile minimal"
    fi
    # The thread sanitizer needs a standard library that was built with it.
    if [[ ! -e $(rustup run nightly rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock ]]; then
        rustup component add rust-src --toolchain nightly \
            || fail "no sources of the nightly's standard library: rustup component add rust-src --toolchain nightly"
    fi
    local tool
    for tool in cargo-deny cargo-fuzz; do
        has "$tool" || cargo install --locked "$tool"
    done
}

# Pinned, so that the package is the same wherever it is made.
install_book() {
    [[ -x target/tools/bin/mdbook ]] \
        || cargo install --locked --root "$PWD/target/tools" --no-default-features --features search mdbook@0.4.52
}

install_bloat() {
    [[ -x target/tools/bin/cargo-bloat ]] || cargo install --locked --root "$PWD/target/tools" cargo-bloat@0.12.1
}

install_target() {
    has rustup || fail "Rust's library for $1 comes with rustup: https://rustup.rs"
    # The toolchain is that of rust-toolchain.toml.
    rustup target list --installed | grep -qx "$1" || rustup target add "$1"
}

# Programs to be compared with; nothing of them is built into ours. Versions are pinned, so that figures can be.
install_bench() {
    local place=$PWD/target/rivals
    mkdir -p "$place/bin"
    [[ -x $place/bin/wireguard ]] || GOBIN=$place/bin go install golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446
    [[ -x $place/bin/boringtun-cli ]] || cargo install --locked --root "$place" boringtun-cli@0.7.1
    [[ -x $place/bin/vpncloud ]] || cargo install --locked --root "$place" vpncloud@2.3.0
}

# Sets `apart`: options under which apt knows a release of Debian and nothing that is installed here, all of it below one place.
# Files are those that the release's signed index names by their SHA256.
lists_apart() {
    local place=$1 release=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg line
    shift 2
    has apt-get && has dpkg-deb || fail "packages of Debian's $release are unpacked here, and that takes apt-get and dpkg-deb"
    [[ -e $keyring ]] || fail "$keyring is missing: apt-get install debian-archive-keyring"
    rm -rf "$place"
    mkdir -p "$place"/{lists,archives}/partial
    touch "$place/status"
    for line in "debian $release" "$@"; do
        echo "deb [signed-by=$keyring] http://deb.debian.org/$line main"
    done >"$place/sources.list"
    apart=(-o "Dir::State::Lists=$place/lists" -o "Dir::Cache=$place" -o "Dir::State::status=$place/status"
        -o "Dir::Etc::SourceList=$place/sources.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Architecture=amd64
        -o APT::Architectures=amd64 -o APT::Sandbox::User=root -o Acquire::Languages=none
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -q)
    # Lists that do not come are a warning to apt alone.
    apt-get "${apart[@]}" -o APT::Update::Error-Mode=any update
}

# Each suite has lists of its own, so that it does not matter which this machine has. Kernels are not installed: here they
# would change how this machine starts.
install_kernels() {
    [[ $(uname -m) == x86_64 ]] || fail "the guests with other kernels are for x86-64 machines alone"
    local suite place kernel release apart
    for suite in bookworm trixie; do
        place=$PWD/target/kernels/$suite
        [[ ! -e $place/release ]] || continue
        rm -rf "$place"
        lists_apart "$place/apt" "$suite" "debian-security $suite-security"
        kernel=$(apt-cache "${apart[@]}" depends linux-image-amd64 | sed -n 's/^ *Depends: //p')
        (cd "$place" && apt-get "${apart[@]}" download "$kernel" busybox-static)
        for package in "$place"/*.deb; do dpkg-deb -x "$package" "$place/root" && rm "$package"; done
        rm -r "$place/apt"
        # Where the package has /lib beside /usr, one place is enough.
        [[ -e $place/root/lib ]] || ln -s usr/lib "$place/root/lib"
        release=${kernel#linux-image-}
        PATH=$PATH:/usr/sbin:/sbin depmod --basedir "$place/root" "$release"
        # Last, as a sign that all is there.
        echo "$release" >"$place/release"
    done
}

# A wpa_supplicant that Debian 12 and 13 do not have, with the C library and all others that it loads: its own loader starts it, see
# tests/interop/supplicant.rs.
install_supplicant() {
    local release=forky version=2.11 place package found apart
    place=$PWD/target/wpa_supplicant-$version
    [[ ! -e $place/version ]] || return 0
    rm -rf "$place"
    lists_apart "$place/apt" "$release"
    found=$(apt-cache "${apart[@]}" policy wpasupplicant | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}//p')
    [[ $found == "$version"-* ]] || fail "tests need wpasupplicant $version, and Debian's $release has ${found:-none}: \
set release= in scripts/setup.sh to one that has it (https://tracker.debian.org/pkg/wpa)"
    # The second one is the smallest package that makes users, which the first one depends on.
    apt-get "${apart[@]}" --yes --no-install-recommends --download-only install wpasupplicant systemd-standalone-sysusers >/dev/null
    for package in "$place"/apt/archives/*.deb; do dpkg-deb -x "$package" "$place/root"; done
    rm -r "$place/apt"
    echo "$found" >"$place/version"
}

install_packages
install_rust
[[ $profile != cross ]] || install_target aarch64-unknown-linux-gnu
[[ $profile != static ]] || install_target x86_64-unknown-linux-musl
[[ $profile != bloat ]] || install_bloat
[[ $profile != ci ]] || install_ci
[[ $profile != book ]] || install_book
[[ $profile != kernels ]] || { install_kernels; install_supplicant; }
[[ $profile != bench || ${FRAMEWARD_RIVALS:-} == packages ]] || install_bench

if ((EUID != 0)); then
    echo "setup: not root. Network namespaces, raw sockets and XDP need root: the demo and the network tests will say so."
fi
