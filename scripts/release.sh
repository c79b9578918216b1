#!/usr/bin/env bash
# Makes a directory of packages a release: a bill of materials (CycloneDX), checksums, and a signature over these.
#
#   scripts/release.sh [--trial] DIRECTORY       the packages are there already: make release
#
# FRAMEWARD_RELEASE_KEY names the private key (SSH, mostly ed25519; its passphrase is asked for) that signs; without it the
# release is unsigned, and that is said. A release needs a section of its version in CHANGELOG.md and a tree without
# changes; --trial does without both.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

fail() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}
trial=""
if [[ ${1:-} == --trial ]]; then
    trial=1
    shift
fi
(($# == 1)) || fail "usage: scripts/release.sh [--trial] DIRECTORY"
directory=$(realpath "$1")
cd "$top"
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
if [[ -z $trial ]]; then
    grep -qF "## [$version]" CHANGELOG.md || fail "CHANGELOG.md has no section [$version]; write it, or try with --trial"
    [[ -z $(git status --porcelain) ]] || fail "there are changes that are not committed; commit them, or try with --trial"
    # Figures of other code than what is released are nobody's.
    measured=$(jq -r .commit docs/evidence/evidence.json)
    git merge-base --is-ancestor "$measured" HEAD 2>/dev/null ||
        fail "docs/evidence is of $measured, which is no commit of this history; make bench and make evidence-docs, or try with --trial"
    newer=$(git diff --name-only "$measured" HEAD -- crates/*/src ':!crates/perf' ':!crates/lab' ':!crates/models')
    [[ -z $newer ]] ||
        fail "docs/evidence is of $measured, and code is newer ($(wc -l <<<"$newer") files); make bench and make evidence-docs, or try with --trial"
fi

# What is in the program: crates that it is built of or with, without those for tests. No random number and no other
# clock than the commit's, so the same source makes the same file.
cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu |
    jq --arg time "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" '
        (.packages | map({ key: .id, value: . }) | from_entries) as $package
        | (.resolve.nodes | map({ key: .id, value: [.deps[]
            | select(any(.dep_kinds[]; .kind == null or .kind == "build")) | .pkg] }) | from_entries) as $needs
        | (.packages[] | select(.name == "frameward") | .id) as $root
        | def closure: (. + (map($needs[.][]) | unique) | unique) as $more
            | if ($more | length) == length then . else $more | closure end;
        def purl: "pkg:cargo/\($package[.].name)@\($package[.].version)";
        def component(type): $package[.] as $it | { type: type, "bom-ref": purl, name: $it.name, version: $it.version,
            purl: purl } + if $it.license then
            { licenses: [{ expression: ($it.license | gsub(" */ *"; " OR ")) }] } else {} end;
        ([$root] | closure) as $all
        | { bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
            metadata: { timestamp: $time, component: ($root | component("application")) },
            components: ($all - [$root] | map(component("library")) | sort_by(.purl)),
            dependencies: ($all | map({ ref: purl, dependsOn: ($needs[.] | map(purl) | sort) }) | sort_by(.ref)) }
    ' >"$directory/frameward_$version.cdx.json"

cd "$directory"
rm -f SHA256SUMS SHA256SUMS.sig
compgen -G '*' >/dev/null || fail "$directory is empty"
find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -printf '%f\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS
if [[ -n ${FRAMEWARD_RELEASE_KEY:-} ]]; then
    ssh-keygen -q -Y sign -f "$FRAMEWARD_RELEASE_KEY" -n frameward-release SHA256SUMS
    echo "release: signed with $FRAMEWARD_RELEASE_KEY"
else
    echo "release: UNSIGNED; name a key in FRAMEWARD_RELEASE_KEY" >&2
fi
cat SHA256SUMS
