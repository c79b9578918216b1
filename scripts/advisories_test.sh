#!/usr/bin/env bash
# Shows that scripts/advisories.sh can fail, and pass: with databases of one made-up advisory each.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# advisory FOLDER CRATE [DATE]: a database that knows of one advisory, which concerns every version of that crate.
advisory() {
    mkdir -p "$scratch/$1/crates/$2"
    cat >"$scratch/$1/crates/$2/RUSTSEC-2026-9999.md" <<EOF
\`\`\`toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "$2"
date = "2026-01-01"
url = "https://example.org"

[versions]
patched = []
\`\`\`

# Made up

For a test.
EOF
    git -C "$scratch/$1" init --quiet
    git -C "$scratch/$1" add --all
    GIT_COMMITTER_DATE=${3:-$(date --iso-8601=seconds)} git -C "$scratch/$1" -c user.name=test -c user.email=test@example.org \
        -c commit.gpgsign=false commit --quiet --message "made up"
}

# yank CRATE: a home of cargo, in which the registry's index says that every version of that crate was yanked.
yank() {
    local home=${CARGO_HOME:-$HOME/.cargo} entry entries=0
    mkdir -p "$scratch/home/registry"
    # The home may be a link itself.
    ln -s "$(realpath "$home")"/registry/{cache,src} "$scratch/home/registry/"
    [[ ! -d $home/git ]] || ln -s "$(realpath "$home/git")" "$scratch/home/git"
    cp -r "$home/registry/index" "$scratch/home/registry/index"
    while read -r entry; do
        sed -i 's/"yanked": *false/"yanked":true/g' "$entry"
        entries=$((entries + 1))
    done < <(find "$scratch/home/registry/index" -path '*/.cache/*' -name "$1")
    ((entries)) || {
        echo "advisories_test: the index has no $1" >&2
        exit 1
    }
}

# expect WORDS [DATABASE]: it fails, and says so in these words.
expect() {
    local told
    if told=$(ADVISORY_DB=${2:-} scripts/advisories.sh 2>&1); then
        echo "advisories_test: not noticed: $1" >&2
        exit 1
    fi
    grep -qF -- "$1" <<<"$told" || {
        printf 'advisories_test: expected "%s", was told:\n%s\n' "$1" "$told" >&2
        exit 1
    }
}

advisory of-ours quinn
advisory of-firmware cortex-m
advisory of-others no-such-crate
advisory old no-such-crate 2020-01-01T00:00:00Z
mkdir -p "$scratch/empty" "$scratch/no-clone/crates"

expect "ADVISORY_DB does not say where"
expect "is no folder" "$scratch/nowhere"
expect "is no advisory database" "$scratch/empty"
expect "is no git clone" "$scratch/no-clone"
expect "RUSTSEC-2026-9999" "$scratch/of-ours"
expect "bench/mcu/Cargo.toml: see above" "$scratch/of-firmware"
expect "days old" "$scratch/old"
cargo fetch --locked --quiet
yank quinn
CARGO_HOME=$scratch/home CARGO_NET_OFFLINE=true expect "detected yanked crate" "$scratch/of-others"
ADVISORY_DB=$scratch/of-others scripts/advisories.sh >"$scratch/told" 2>&1 || {
    printf 'advisories_test: nothing that we depend on is concerned, and it fails:\n%s\n' "$(cat "$scratch/told")" >&2
    exit 1
}
while read -r lock; do
    grep -qFx "advisories: ${lock%.lock}.toml" "$scratch/told" || {
        echo "advisories_test: $lock is not looked at" >&2
        exit 1
    }
done < <(git ls-files '*Cargo.lock')
echo "advisories_test: all breaches are noticed"
