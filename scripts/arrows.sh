#!/usr/bin/env bash
# The arrows between the crates, and what may stand in which room. See ARCHITECTURE.md.
#
#   {wire, antedate} <- suite <- {secy, mka, tunnel, fieldbus} <- {pnstore, dataplane} <- {control, sitelink} <- frameward <- perf
#   netdev <- pnstore <- dataplane        lab <- perf        {secy, tunnel, fieldbus, netdev} <- xdp <- {control, sitelink, perf}
#   fieldbus <- speed <- {config, bench}     {speed, sitelink} <- config <- report <- diagnosis <- frameward     bench <- perf
#   config <- inventory <- frameward        {pnstore, config} <- fleet <- {frameward, perf}
#
# Tells every breach, not only the first. With a directory as argument it looks at the workspace there.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

breaches=0
breach() {
    printf 'arrows: %s\n' "$*" >&2
    breaches=$((breaches + 1))
}

# The frame path and all below it.
frame_path="frameward-wire frameward-suite frameward-secy frameward-mka frameward-tunnel frameward-fieldbus frameward-netdev frameward-dataplane"

# What a crate may name in [dependencies] and [build-dependencies]; everything that is not here is a breach.
allowed() {
    case $1 in
    frameward-wire) ;;
    frameward-suite) echo frameward-wire frameward-antedate ;;
    # For microcontrollers too: it needs nobody.
    frameward-antedate) ;;
    # Its C face, which nobody here uses.
    frameward-antedate-c) echo frameward-antedate ;;
    # The rows that a microcontroller and a host measure.
    frameward-precompute) echo frameward-antedate ;;
    frameward-secy | frameward-mka | frameward-tunnel | frameward-fieldbus) echo frameward-wire frameward-suite ;;
    # Ports, interfaces and the memory of frames: all unsafe code of the gateway.
    frameward-netdev) echo frameward-wire ;;
    # The frame path in the kernel: programs in BPF C, and what loads them. No unsafe code.
    frameward-xdp) echo frameward-wire frameward-suite frameward-secy frameward-tunnel frameward-fieldbus frameward-netdev ;;
    frameward-pnstore) echo frameward-wire frameward-suite frameward-netdev ;;
    # The frame path: no unsafe code.
    frameward-dataplane) echo frameward-wire frameward-suite frameward-secy frameward-mka frameward-tunnel frameward-fieldbus frameward-netdev ;;
    # The channel between sites: the only user of QUIC.
    frameward-sitelink) echo frameward-wire frameward-suite frameward-tunnel frameward-netdev frameward-xdp frameward-dataplane ;;
    frameward-control) echo frameward-wire frameward-suite frameward-secy frameward-mka frameward-tunnel frameward-fieldbus frameward-netdev frameward-xdp frameward-pnstore frameward-dataplane ;;
    # The laboratory: namespaces and traffic. It knows no product crate.
    frameward-lab) ;;
    # Configuration and what it means on this machine; what a running gateway tells; why nothing passes.
    frameward-config) echo "$frame_path" frameward-pnstore frameward-sitelink frameward-speed ;;
    # The inventory of a fleet: from files to the configuration of each gateway. No network, no unsafe code.
    frameward-inventory) echo frameward-wire frameward-suite frameward-config ;;
    # Signed records and their directory: operators and gateways.
    frameward-fleet) echo frameward-suite frameward-pnstore frameward-config ;;
    frameward-report) echo "$frame_path" frameward-pnstore frameward-sitelink frameward-config ;;
    frameward-diagnosis) echo "$frame_path" frameward-pnstore frameward-sitelink frameward-config frameward-report ;;
    frameward) echo "$frame_path" frameward-pnstore frameward-sitelink frameward-config frameward-report frameward-diagnosis frameward-control frameward-speed frameward-inventory frameward-fleet ;;
    # Bursts and cells in memory, and their times: what `plan` and the start measure, and the benches too.
    frameward-speed) echo frameward-wire frameward-suite frameward-fieldbus ;;
    # Rows, and what only benches and the instruction guard run. No gateway links it.
    frameward-bench) echo frameward-wire frameward-suite frameward-secy frameward-tunnel frameward-fieldbus frameward-speed ;;
    # The laboratory's program: demos, benches, evidence. No gateway links it.
    frameward-perf)
        echo "$frame_path" frameward-xdp frameward-pnstore frameward-control frameward-sitelink frameward-config frameward-report frameward-lab frameward frameward-fleet frameward-speed frameward-bench frameward-precompute
        ;;
    # State spaces of protocol crates, searched. Nobody links it.
    frameward-models) echo frameward-wire frameward-suite frameward-secy frameward-mka frameward-tunnel frameward-fieldbus frameward-pnstore frameward-testkit ;;
    # For tests; nobody names them but in [dev-dependencies].
    frameward-browser) echo frameward-lab ;;
    frameward-testkit | frameward-corpus)
        echo "$frame_path" frameward-pnstore frameward-control frameward-sitelink frameward-config frameward-inventory frameward-fleet frameward-report frameward-diagnosis frameward-lab frameward frameward-testkit
        ;;
    *) return 1 ;;
    esac
}

metadata=$(cargo metadata --format-version 1 --no-deps --locked --offline)
members=$(jq -r '.packages[].name' <<<"$metadata")
for member in $members; do
    allowed "$member" >/dev/null || breach "crate $member has no place among the arrows; give it one in scripts/arrows.sh and ARCHITECTURE.md"
done
while read -r from to kind; do
    grep -qx -- "$to" <<<"$members" || continue
    may=" $(allowed "$from") "
    # Itself: with a feature for its own tests.
    [[ $kind != dev ]] || may+="$from frameward-testkit frameward-models frameward-browser frameward-lab frameward-perf "
    [[ $may == *" $to "* ]] || breach "$from must not depend on $to ($kind)"
done < <(jq -r '.packages[] | .name as $from | .dependencies[] | "\($from) \(.name) \(.kind // "normal")"' <<<"$metadata")

# Ciphers come from crates, and through `suite` alone; the bench names the crates too, to compare with their bare calls.
while read -r from to kind; do
    case $from in
    frameward-suite | frameward-bench) ;;
    *) breach "$from must not depend on $to ($kind): ciphers come through frameward-suite" ;;
    esac
done < <(jq -r '.packages[] | .name as $from | .dependencies[] | select(.name | IN("aws-lc-rs", "aegis", "morus", "hpke")) | "\($from) \(.name) \(.kind // "normal")"' <<<"$metadata")

# A crate's code without its tests: what stands before a file's test module, in files that are no test module.
code_of() {
    local crate=$1 file tests
    tests=$(sources "$crate/src" | xargs sed -nE '/^#\[cfg\(test\)\]/{n;s/^mod ([a-z0-9_]+);/\1/p}' | tr '\n' ' ')
    sources "$crate/src" | sort | while read -r file; do
        [[ " $tests " != *" $(basename "$file" .rs) "* ]] || continue
        awk -v file="$file" '/^#\[cfg\(test\)\]/ { getline; if (/\{/) exit; next } !/^[[:space:]]*\/\// { print file ":" FNR ":" $0 }' "$file"
    done
}

sources() { find "$@" -name '*.rs' -not -path '*/target/*'; }

# In the bench, one file alone.
while IFS=: read -r file line text; do
    breach "$file:$line: a bare cipher outside bench/src/bare.rs: $text"
done < <(sources bench/src | grep -v '/bare\.rs$' | xargs grep -nE '\b(aws_lc_rs|aegis|morus)::' || true)

# QUIC belongs to the channel between sites, TLS to that, to the way to a directory, and to the cockpit of a fleet.
while read -r from to kind; do
    [[ $from == frameward-sitelink || ($to == rustls && ($from == frameward-fleet || $from == frameward)) ]] ||
        breach "$from must not depend on $to ($kind): QUIC belongs to frameward-sitelink, TLS to it, to frameward-fleet and to the cockpit in frameward"
done < <(jq -r '.packages[] | .name as $from | .dependencies[] | select(.kind == null and (.name | IN("quinn", "quinn-proto", "rustls"))) | "\($from) \(.name) normal"' <<<"$metadata")

# Events of the log are made by the program alone: protocol crates and workers log nothing, control and sitelink return notices.
while read -r from to kind; do
    [[ $from == frameward ]] || breach "$from must not depend on $to ($kind): the log belongs to frameward"
done < <(jq -r '.packages[] | .name as $from | .dependencies[] | select(.name | IN("tracing", "tracing-core", "log")) | "\($from) \(.name) \(.kind // "normal")"' <<<"$metadata")

# Unsafe code: in netdev, and in the C face of antedate, to which C hands pointers; there only where a module allows
# it by name.
grep -qE '^unsafe_code = "(deny|forbid)"' Cargo.toml || breach "Cargo.toml: [workspace.lints.rust] must deny unsafe_code"
for manifest in crates/*/Cargo.toml testkit/Cargo.toml bench/Cargo.toml tests/*/Cargo.toml; do
    [[ -e $manifest ]] || continue
    sed -n '/^\[lints\]/,/^\[/p' "$manifest" | grep -qx 'workspace = true' || breach "$manifest: [lints] workspace = true is missing"
done
while IFS=: read -r file line text; do
    [[ $file == crates/netdev/* || $file == crates/antedate-c/src/* ]] ||
        breach "$file:$line: unsafe outside crates/netdev and crates/antedate-c: $text"
done < <(sources crates testkit bench fuzz tests | xargs grep -nE '\bunsafe[[:space:]]*(\{|fn\b|impl\b|trait\b|extern\b)|allow\(unsafe_code|expect\(unsafe_code' | grep -vE ':[0-9]+:[[:space:]]*//' || true)

# What a directory sends is hostile input.
grep -qx '#!\[forbid(unsafe_code)\]' crates/fleet/src/lib.rs || breach "crates/fleet/src/lib.rs: #![forbid(unsafe_code)] is missing"

# The kernel path: its loader is aya, whose interface is safe.
grep -qx '#!\[forbid(unsafe_code)\]' crates/inventory/src/lib.rs || breach "crates/inventory/src/lib.rs: #![forbid(unsafe_code)] is missing"
grep -qx '#!\[forbid(unsafe_code)\]' crates/xdp/src/lib.rs || breach "crates/xdp/src/lib.rs: #![forbid(unsafe_code)] is missing"

# The C face is for firmware: on a host it takes std's panic handler, and nothing else of it.
grep -qx '#!\[no_std\]' crates/antedate-c/src/lib.rs || breach "crates/antedate-c/src/lib.rs: #![no_std] is missing"
while IFS=: read -r file line text; do
    breach "$file:$line: the C face of antedate reaches for std: $text"
done < <(code_of crates/antedate-c | grep -E '\bstd::|\be?println!' || true)

# The protocol crates: no clock, no input and output, no log. no_std makes it so.
for crate in wire antedate suite secy mka tunnel fieldbus; do
    grep -qx '#!\[no_std\]' "crates/$crate/src/lib.rs" || breach "crates/$crate/src/lib.rs: #![no_std] is missing"
    while IFS=: read -r file line text; do
        breach "$file:$line: a protocol crate reaches for std: $text"
    done < <(code_of "crates/$crate" | grep -E '\bstd::|\be?println!|\bextern crate std\b' || true)
    if sed -n '/^\[features\]/,/^\[/p' "crates/$crate/Cargo.toml" | grep -qE '^[a-z]'; then
        breach "crates/$crate/Cargo.toml: a protocol crate has feature flags"
    fi
done

while read -r path; do
    breach "$path: no room is called that; name it after what it is about"
done < <(find crates testkit bench fuzz tests -not -path '*/target/*' \( -name utils -o -name 'utils.rs' -o -name util -o -name 'util.rs' \
    -o -name common -o -name 'common.rs' -o -name misc -o -name 'misc.rs' -o -name helpers -o -name 'helpers.rs' \
    -o -name helper -o -name 'helper.rs' -o -name manager -o -name 'manager.rs' -o -name '*_manager.rs' -o -name '*_utils.rs' \))

if ((breaches)); then
    echo "arrows: $breaches breaches" >&2
    exit 1
fi
echo "arrows: fine: $(wc -w <<<"$members") crates"
