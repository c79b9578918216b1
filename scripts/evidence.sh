#!/usr/bin/env bash
# Keeps the last full run of `make bench` in docs/evidence: evidence.json, and the page of it.
#
#   scripts/evidence.sh [RUN]    another directory than target/evidence
#
# Refuses a quick run, and one of a tree with changes: nobody could make its figures again.
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-target/evidence}
limit() { # FILE OCTETS: what is committed stays small
    local octets
    octets=$(stat -c %s "$1")
    ((octets < $2)) || { echo "evidence: $1 has $octets octets, more than $2: too many to be committed" >&2; exit 1; }
}

[[ -e $run/evidence.json && -e $run/index.html ]] || { echo "evidence: no run in $run: make bench" >&2; exit 1; }
effort=$(jq -r .effort "$run/evidence.json") commit=$(jq -r .commit "$run/evidence.json")
[[ $effort == full ]] || { echo "evidence: $run is a $effort run; make bench makes a full one" >&2; exit 1; }
[[ $commit != *+ ]] || { echo "evidence: $run was made of $commit, a tree with changes" >&2; exit 1; }
limit "$run/evidence.json" 3000000
limit "$run/index.html" 2000000
cp "$run/evidence.json" "$run/index.html" docs/evidence/
jq -r '"evidence: kept the run of \(.commit), \(.ended), in docs/evidence; gaps: \([.steps[] | select(.gap != null)] | length)"' \
    docs/evidence/evidence.json
