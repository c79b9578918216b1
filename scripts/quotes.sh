#!/usr/bin/env bash
# Fails when a document quotes a figure of the evidence that docs/evidence/evidence.json does not hold.
#
# A quoted figure has its address behind it, as a comment that nobody sees in the rendered document:
#
#   ... carries 3.1<!-- evidence /figures/rivals/TCP, one stream, Frameward/value --> Mbit/s
#   ... is 3.1<!-- evidence /figures/rivals/TCP, one stream, Frameward/value over /figures/rivals/TCP, one stream, fastd/value --> times
#
# What stands in code is an example. A quotation holds if the value, rounded to as many digits as are quoted, is what is
# quoted. Points divide, commas part thousands.
#
# A document that quotes names the run, so that everybody sees how old a figure is:
#
#   ... the run of `a24b49c`<!-- evidence /commit --> ...
#
# A release whose frame path is newer than the run is refused by scripts/release.sh.
#
#   scripts/quotes.sh [DIRECTORY]    documents and evidence of another directory than this repository's
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

evidence=docs/evidence/evidence.json
breaches=0 quotes=0
breach() {
    printf 'quotes: %s\n' "$*" >&2
    breaches=$((breaches + 1))
}

# The number at an address, or nothing. A part of an address may hold blanks, and no slash: the document spells none.
value() {
    jq -r --arg address "$1" '
        getpath($address | ltrimstr("/") | split("/") | map(if test("^[0-9]+$") then tonumber else . end))
        | select(type == "number")' "$evidence" 2>/dev/null || true
}

while IFS= read -r -d '' document; do
    before=$quotes
    while IFS=$'\t' read -r line quoted address; do
        quotes=$((quotes + 1))
        [[ -e $evidence ]] || { breach "$document:$line: quotes $quoted, and $evidence does not exist"; continue; }
        [[ -n $quoted ]] || { breach "$document:$line: no number stands in front of the comment with $address"; continue; }
        number=${quoted//,/}
        held=$(value "${address%% over /*}")
        [[ -n $held ]] || { breach "$document:$line: $evidence holds no number at ${address%% over /*}"; continue; }
        if [[ $address == *" over /"* ]]; then
            divisor=$(value "/${address##* over /}")
            [[ -n $divisor ]] || { breach "$document:$line: $evidence holds no number at /${address##* over /}"; continue; }
            held=$(jq -n "$held / $divisor")
        fi
        decimals=${number#*.}
        [[ $number == *.* ]] || decimals=
        rounded=$(LC_ALL=C awk -v held="$held" -v digits="${#decimals}" 'BEGIN { printf "%.*f", digits, held }')
        # 30,000 quotes 29,700 as well as it can be quoted with two digits.
        if [[ $rounded != "$number" && $number =~ ^[0-9]*[1-9](0+)$ ]]; then
            unit=1${BASH_REMATCH[1]}
            rounded=$(LC_ALL=C awk -v held="$held" -v unit="$unit" 'BEGIN { printf "%.0f", int(held / unit + 0.5) * unit }')
        fi
        # Whoever quotes a missed target says so within two lines.
        if [[ $address == /verdicts/* ]]; then
            verdict=${address#/verdicts/}
            met=$(jq -r --arg name "${verdict%%/*}" '.verdicts[$name].met' "$evidence")
            [[ $met != false ]] || sed -n "$((line > 2 ? line - 2 : 1)),$((line + 1))p" "$document" | grep -qi 'missed' ||
                breach "$document:$line: quotes $address, whose target is missed, and does not say so"
        fi
        [[ $rounded == "$number" ]] || breach "$document:$line: quotes $quoted; $evidence holds $held at $address"
    done < <(LC_ALL=C awk '/^```/ { code = !code } code || /^    / { next } {
        rest = $0
        while (match(rest, /<!-- evidence \/[^>]* -->/)) {
            before = substr(rest, 1, RSTART - 1)
            address = substr(rest, RSTART + 14, RLENGTH - 18)
            number = ""
            if (match(before, /[0-9][0-9,]*(\.[0-9]+)?[*_]*$/)) { number = substr(before, RSTART); gsub(/[*_]/, "", number) }
            if (address != "/commit") { print NR "\t" number "\t" address }
            at = index(rest, "<!-- evidence " address " -->")
            rest = substr(rest, at + length(address) + 18)
        }
    }' "$document")
    ((quotes == before)) || [[ ! -e $evidence ]] || {
        commit=$(jq -r '.commit // empty' "$evidence")
        grep -qE "(^|[^0-9a-f])$commit\`?<!-- evidence /commit -->" "$document" ||
            breach "$document: quotes figures of the run of $commit, and does not name it: \`$commit\`<!-- evidence /commit -->"
    }
done < <(find . -maxdepth 1 -name '*.md' -print0; [[ ! -d docs ]] || find docs -name '*.md' -print0)

if ((breaches)); then
    echo "quotes: $breaches breaches" >&2
    exit 1
fi
echo "quotes: fine: $quotes figures quoted"
