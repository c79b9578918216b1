#!/usr/bin/env bash
# Breaks the protocol crates line by line, and has the models of crates/models find each in their quick depth. Some minutes.
#
#   scripts/model_mutants.sh          all of them
#   scripts/model_mutants.sh WORD     those whose line has the word in it
#
# The sources are changed in a copy, target/model-mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

# file below crates | what stands there once | what is put in its place
mutants=(
    # Nobody waits until all receive.
    'mka/src/cp.rs|let go = took_too_long \|\| all_receiving \|\| (!elected_self && server_transmitting);|let go = true;'
    # The SAK before goes on protecting.
    'mka/src/cp.rs|older.tx = false;|'
    # All SAKs of a key server have one name.
    'mka/src/distribution.rs|self.kn = self.kn.wrapping_add(1).max(1);|self.kn = 1;'
    # SSCIs follow from the order in which peers were heard.
    'mka/src/association.rs|scis.sort_unstable_by(\|a, b\| b.cmp(a));|'
    # Nobody is ever lost.
    'mka/src/peers.rs|extract_if(.., \|peer\| now >= peer.expiry())|extract_if(.., \|_\| false)'
    # Who joins is no reason for a SAK.
    'mka/src/key_server.rs|.find(\|peer\| !distribution.members.contains(&peer.mi) && (is_awaited \|\| !is_led(peer)));|.find(\|_\| false);'
)

copy=target/model-mutants
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard Cargo.toml Cargo.lock rust-toolchain.toml .cargo crates testkit bench tests |
    xargs -0 cp --parents -t "$copy"
missed=0 found=0
for mutant in "${mutants[@]}"; do
    [[ $mutant == *${1:-}* ]] || continue
    # A bar that belongs to the text has a backslash in front.
    mapfile -t parts < <(sed 's/\\|/\x01/g; s/|/\n/g' <<<"$mutant" | tr '\001' '|')
    file=crates/${parts[0]} from=${parts[1]} to=${parts[2]:-}
    text=$(<"$file")
    before=${text%%"$from"*}
    [[ $text != "$before" && ${text#*"$from"} != *"$from"* ]] || {
        echo "mutants: not once in $file: $from" >&2
        exit 1
    }
    printf '%s\n' "$before$to${text#"$before$from"}" >"$copy/$file"
    test=(cargo test --manifest-path "$copy/Cargo.toml" --target-dir target --locked -p frameward-models --test kay)
    "${test[@]}" --no-run >"$copy/log" 2>&1 || {
        cat "$copy/log"
        echo "mutants: does not build: $mutant" >&2
        exit 1
    }
    if "${test[@]}" -- --nocapture >"$copy/log" 2>&1; then
        echo "MISSED  $mutant"
        missed=$((missed + 1))
    else
        echo "found   $mutant   by $(sed -nE 's/^.*NOT SO: ([^:]+):.*/\1/p' "$copy/log" | sort -u | paste -sd, -)"
        found=$((found + 1))
    fi
    cp "$file" "$copy/$file"
done
echo "mutants: $found found, $missed missed"
((!missed))
