#!/usr/bin/env bash
# Whether scripts/release.sh does what it says, with a key that is thrown away. No root, no build.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    printf 'release_test: %s\n' "$*" >&2
    exit 1
}
release=$scratch/release key=$scratch/key signers=$scratch/signers
mkdir "$release"
echo one >"$release/frameward_0_amd64.deb"
echo two >"$release/frameward_0_arm64.deb"
ssh-keygen -q -t ed25519 -N '' -C test -f "$key"
echo "maintainer@frameward.invalid $(cat "$key.pub")" >"$signers"
# As docs/releasing.md tells those who install it.
verifies() {
    (cd "$release" && ssh-keygen -q -Y verify -f "$signers" -I maintainer@frameward.invalid -n frameward-release \
        -s SHA256SUMS.sig <SHA256SUMS && sha256sum --quiet --strict --check SHA256SUMS) >"$scratch/verify.log" 2>&1
}

scripts/release.sh --trial "$release" >"$scratch/unsigned.log" 2>&1 || fail "without a key: $(cat "$scratch/unsigned.log")"
grep -q UNSIGNED "$scratch/unsigned.log" || fail "a release without a signature does not say so"
[[ ! -e $release/SHA256SUMS.sig ]] || fail "signed without a key"
bill=$(echo "$release"/*.cdx.json)
cp "$bill" "$scratch/first.json"

FRAMEWARD_RELEASE_KEY=$key scripts/release.sh --trial "$release" >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
verifies || fail "it does not verify: $(cat "$scratch/verify.log")"
cmp -s "$bill" "$scratch/first.json" || fail "a second bill of materials is another one"
[[ $(wc -l <"$release/SHA256SUMS") == 3 ]] || fail "not every file has its checksum: $(cat "$release/SHA256SUMS")"

echo more >>"$release/frameward_0_arm64.deb"
! verifies || fail "a changed package passes"
FRAMEWARD_RELEASE_KEY=$key scripts/release.sh --trial "$release" >/dev/null 2>&1
verifies || fail "signed again it does not verify"
sed -i '1s/^./x/' "$release/SHA256SUMS"
! verifies || fail "changed checksums pass"

jq -e '.bomFormat == "CycloneDX" and .metadata.component.name == "frameward"' "$bill" >/dev/null || fail "the bill says not what it is"
# Each is in Cargo.lock in this version, every dependency is a component, and no library is missing or of tests alone.
jq -r '.components[] | "\(.name) \(.version)"' "$bill" | sort -u >"$scratch/components"
paste -sd' ' Cargo.lock | grep -oE 'name = "[^"]*" version = "[^"]*"' | sed -E 's/name = "(.*)" version = "(.*)"/\1 \2/' | sort -u >"$scratch/locked"
[[ -z $(comm -23 "$scratch/components" "$scratch/locked") ]] || fail "not in Cargo.lock: $(comm -23 "$scratch/components" "$scratch/locked")"
jq -e '([.components[].purl] + [.metadata.component.purl]) as $known | all(.dependencies[].dependsOn[]; IN($known[]))' "$bill" >/dev/null \
    || fail "a dependency is no component"
for crate in aws-lc-rs quinn rustls frameward-dataplane; do
    grep -q "^$crate " "$scratch/components" || fail "$crate is missing"
done
for crate in proptest regex-lite frameward-lab; do
    ! grep -q "^$crate " "$scratch/components" || fail "$crate is of tests alone"
done
jq -e 'all(.components[]; .licenses)' "$bill" >/dev/null || fail "a component has no licence"
echo "release_test: fine: $(wc -l <"$scratch/components") crates"
