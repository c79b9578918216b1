#!/usr/bin/env bash
# Breaks the protocol crates line by line, and has the models of crates/models find each in their quick depth, by the property that
# is named beside it. Some minutes.
#
#   scripts/model_mutants.sh          all of them
#   scripts/model_mutants.sh WORD     those whose line has the word in it
#
# The sources are changed in a copy, target/model-mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

# property that has to find it | file below crates | what stands there once | what is put in its place
mutants=(
    # The SAK before goes on protecting.
    'two SAKs|mka/src/cp.rs|older.tx = false;|'
    # Nobody waits until all receive.
    'does not accept|mka/src/cp.rs|let go = took_too_long \|\| all_receiving \|\| follows;|let go = true;'
    # All SAKs of a key server have one name.
    'comes twice|mka/src/distribution.rs|self.kn = self.kn.wrapping_add(1).max(1);|self.kn = 1;'
    # SSCIs follow from the order in which peers were heard.
    'comes twice|mka/src/association.rs|scis.sort_unstable_by(\|a, b\| b.cmp(a));|'
    # A SAK is anybody's.
    'elected|mka/src/distributed_sak.rs|let is_ours = principal.server() == ElectedServer::Peer(mi);|let is_ours = true;'
    # All SAKs have one AN.
    'in use goes|mka/src/key_server.rs|*order.iter().chain(&zero).find(free).unwrap_or(&order[0])|*order.iter().chain(&zero).find(free).map_or(&order[0], \|_\| &An::ALL[1])'
    # A SAK protects before the SecY has it.
    'can do|mka/src/cp.rs|phase: Phase::Receive,|phase: Phase::Receiving(station.now() + TRANSMIT_DELAY),'
    # Nobody is ever lost.
    'can do|mka/src/peers.rs|extract_if(.., \|peer\| now >= peer.expiry())|extract_if(.., \|_\| false)'
    # Who joins is no reason for a SAK.
    'in time|mka/src/key_server.rs|.find(\|peer\| !distribution.members.contains(&peer.mi) && (is_awaited \|\| !is_led(peer)));|.find(\|_\| false);'
    # A peer is lost after its life time, whatever it shows.
    'in time|mka/src/peer.rs|self.shown = now;|'
)

copy=target/model-mutants
# Not the target of the sources themselves: cargo takes a mutant there for theirs.
built=target/model-mutants-built
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard Cargo.toml Cargo.lock rust-toolchain.toml .cargo crates testkit bench tests |
    xargs -0 cp --parents -t "$copy"
missed=0 found=0
for mutant in "${mutants[@]}"; do
    [[ $mutant == *${1:-}* ]] || continue
    # A bar that belongs to the text has a backslash in front.
    mapfile -t parts < <(sed 's/\\|/\x01/g; s/|/\n/g' <<<"$mutant" | tr '\001' '|')
    property=${parts[0]} file=crates/${parts[1]} from=${parts[2]} to=${parts[3]:-}
    text=$(<"$file")
    before=${text%%"$from"*}
    [[ $text != "$before" && ${text#*"$from"} != *"$from"* ]] || {
        echo "mutants: not once in $file: $from" >&2
        exit 1
    }
    printf '%s\n' "$before$to${text#"$before$from"}" >"$copy/$file"
    test=(cargo test --manifest-path "$copy/Cargo.toml" --target-dir "$built" --locked -p frameward-models --test kay)
    "${test[@]}" --no-run >"$copy/log" 2>&1 || {
        cat "$copy/log"
        echo "mutants: does not build: $mutant" >&2
        exit 1
    }
    "${test[@]}" -- --nocapture >"$copy/log" 2>&1 || true
    by=$(sed -nE 's/^.*NOT SO: ([^:]+):.*/\1/p' "$copy/log" | sort -u)
    if [[ $by == *"$property"* ]]; then
        echo "found   $mutant   by: $(paste -sd, - <<<"$by")"
        found=$((found + 1))
    else
        echo "MISSED  $mutant   by: $(paste -sd, - <<<"$by")"
        missed=$((missed + 1))
    fi
    cp "$file" "$copy/$file"
done
echo "mutants: $found found, $missed missed"
((!missed))
