#!/usr/bin/env bash
# Whether anything that we depend on is known to be vulnerable, unmaintained or yanked.
#
#   ADVISORY_DB=FOLDER scripts/advisories.sh    FOLDER is a clone of https://github.com/RustSec/advisory-db
#
# The database is never fetched here: its owner keeps it up to date. One that is older than 90 days is refused, since a
# pass would say nothing. Whether a version was yanked is read from the registry's index as cargo has it; crates that
# are not here yet are fetched from the registry, and their index with them.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'advisories: %s\n' "$*" >&2
    exit 1
}

clone="git clone --depth 1 https://github.com/RustSec/advisory-db FOLDER, then ADVISORY_DB=FOLDER make advisories"
[[ -n ${ADVISORY_DB:-} ]] || fail "ADVISORY_DB does not say where the advisory database is; $clone"
[[ -d $ADVISORY_DB ]] || fail "ADVISORY_DB: $ADVISORY_DB is no folder; $clone"
database=$(cd "$ADVISORY_DB" && pwd)
[[ -d $database/crates ]] || fail "ADVISORY_DB: $ADVISORY_DB has no folder crates, so it is no advisory database; $clone"
git -C "$database" rev-parse --verify --quiet HEAD >/dev/null ||
    fail "ADVISORY_DB: $ADVISORY_DB is no git clone, so nobody can tell how old it is; $clone"
age=$((($(date +%s) - $(git -C "$database" log -1 --format=%ct)) / 86400))
((age <= 90)) || fail "ADVISORY_DB: the newest entry of $ADVISORY_DB is $age days old; git -C $ADVISORY_DB pull"
command -v cargo-deny >/dev/null || fail "cargo-deny is missing; scripts/setup.sh ci installs it"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The name under which cargo-deny keeps a clone of that address.
ln -s "$database" "$scratch/advisory-db-3157b0e258782691"
sed "s|^\[advisories\]\$|&\ndb-path = \"$scratch\"|" deny.toml >"$scratch/deny.toml"
grep -q '^db-path' "$scratch/deny.toml" || fail "deny.toml has no section [advisories]"

# A copy of a crate, which a lock file of its own names.
scripts/threads.sh sources
for manifest in Cargo.toml fuzz/Cargo.toml bench/mcu/Cargo.toml proofs/threads/Cargo.toml; do
    printf 'advisories: %s\n' "$manifest"
    cargo fetch --locked --quiet --manifest-path "$manifest"
    cargo deny --offline --manifest-path "$manifest" --config "$scratch/deny.toml" check advisories ||
        fail "$manifest: see above; cargo update -p CRATE, or an entry of ignore in deny.toml with its reason"
done
