#!/usr/bin/env bash
# scripts/quotes.sh can fail: what is wrong is found, and what is right is let pass.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/docs/evidence"
cat >"$scratch/docs/evidence/evidence.json" <<'JSON'
{"figures":{"rivals":{"TCP, one stream, Frameward":{"value":2531.27,"values":[2530.0,2531.27]},
                      "TCP, one stream, fastd":{"value":838.4}}},
 "verdicts":{"Round trip":{"ours":149,"met":false},"IMIX":{"ratio":4,"met":true}}}
JSON
ours='/figures/rivals/TCP, one stream, Frameward/value'
theirs='/figures/rivals/TCP, one stream, fastd/value'

expect() {
    local wanted=$1 text=$2
    printf '%s\n' "$text" >"$scratch/README.md"
    if scripts/quotes.sh "$scratch" >"$scratch/told" 2>&1; then told=fine; else told=breach; fi
    [[ $told == "$wanted" ]] || {
        echo "quotes_test: $wanted was expected of: $text" >&2
        cat "$scratch/told" >&2
        exit 1
    }
}

expect fine 'no figure at all, and 3.1 that nobody marked'
expect fine "it carries **2,531**<!-- evidence $ours --> Mbit/s, 2531.3<!-- evidence $ours --> to be exact, or about 2,500<!-- evidence $ours -->"
expect fine "3.0<!-- evidence $ours over $theirs --> times"
expect fine "    9<!-- evidence $ours -->"
expect fine "2530<!-- evidence /figures/rivals/TCP, one stream, Frameward/values/0 -->"
expect breach "it carries 2,532<!-- evidence $ours --> Mbit/s"
expect breach "it carries 2,531.2<!-- evidence $ours --> Mbit/s"
expect breach "3.1<!-- evidence $ours over $theirs --> times"
expect breach "2,531<!-- evidence /figures/rivals/TCP, two streams/value -->"
expect breach "2,531<!-- evidence $ours over /figures/nothing -->"
expect fine "4<!-- evidence /verdicts/IMIX/ratio --> times"
expect fine "Missed: 149<!-- evidence /verdicts/Round trip/ours --> µs"
expect breach "149<!-- evidence /verdicts/Round trip/ours --> µs"
expect breach "much<!-- evidence $ours -->"
rm "$scratch/docs/evidence/evidence.json"
expect breach "2,531<!-- evidence $ours -->"
expect fine 'no figure at all'
echo "quotes_test: fine"
