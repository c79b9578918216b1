#!/usr/bin/env bash
# scripts/quotes.sh can fail: what is wrong is found, and what is right is let pass.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/docs/evidence"
cat >"$scratch/docs/evidence/evidence.json" <<'JSON'
{"commit":"a24b49c","figures":{"rivals":{"TCP, one stream, Frameward":{"value":2531.27,"values":[2530.0,2531.27]},
                      "TCP, one stream, fastd":{"value":838.4}}},
 "verdicts":{"Round trip":{"ours":149,"met":false},"IMIX":{"ratio":4,"met":true}}}
JSON
ours='/figures/rivals/TCP, one stream, Frameward/value'
theirs='/figures/rivals/TCP, one stream, fastd/value'

run='the run of `a24b49c`<!-- evidence /commit -->'

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
expect fine "it carries **2,531**<!-- evidence $ours --> Mbit/s, 2531.3<!-- evidence $ours --> to be exact, or about 2,500<!-- evidence $ours -->, $run"
expect fine "3.0<!-- evidence $ours over $theirs --> times, $run"
expect fine "    9<!-- evidence $ours -->"
expect fine "2530<!-- evidence /figures/rivals/TCP, one stream, Frameward/values/0 -->, $run"
expect breach "it carries 2,532<!-- evidence $ours --> Mbit/s, $run"
expect breach "it carries 2,531.2<!-- evidence $ours --> Mbit/s, $run"
expect breach "3.1<!-- evidence $ours over $theirs --> times, $run"
expect breach "2,531<!-- evidence /figures/rivals/TCP, two streams/value -->, $run"
expect breach "2,531<!-- evidence $ours over /figures/nothing -->, $run"
expect fine "4<!-- evidence /verdicts/IMIX/ratio --> times, $run"
expect fine "Missed: 149<!-- evidence /verdicts/Round trip/ours --> µs, $run"
expect breach "149<!-- evidence /verdicts/Round trip/ours --> µs, $run"
expect breach "much<!-- evidence $ours -->, $run"
expect breach "4<!-- evidence /verdicts/IMIX/ratio --> times, in no run"
expect breach "4<!-- evidence /verdicts/IMIX/ratio --> times, in the run of \`b24b49c\`<!-- evidence /commit -->"
rm "$scratch/docs/evidence/evidence.json"
expect breach "2,531<!-- evidence $ours -->, $run"
expect fine 'no figure at all'
echo "quotes_test: fine"
