#!/usr/bin/env bash
# Proves the bounds (z3) and searches the protocol models (Maude). Fails if a property fails, if a mutant is not refused, or if a
# model no longer agrees with what the code did.
#
#   proofs/run.sh           all files
#   proofs/run.sh WORD      those whose name has the word in it
#
# A file of bounds is SMT-LIB with marks. Before the first mark stand the definitions.
#   ;@vectors      here FILE.vectors is checked: what the code did, written and compared by a test of the crate
#   ;@goal NAME    the assertions behind it have no solution
#   ;@possible     they have one, so the hypotheses of the goals are not empty
# A file of models is Maude with marks; a search stands behind each.
#   ***@never NAME     no state like this can be reached
#   ***@attack NAME    it can: what is not promised, or what shows that the model moves
# In both, `@mutant GOAL/NAME: OLD => NEW` weakens a line. OLD stands in the file once. GOAL must fail with it.
set -euo pipefail
cd "$(dirname "$0")"
word=${1:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0 proven=0 refused=0 states=0
fail() {
    printf 'proofs: FAILED: %s\n' "$*" >&2
    failed=$((failed + 1))
}

# Makes the mutants of a file: $scratch/mutants/NAME.EXTENSION each.
mutants() {
    rm -rf "$scratch/mutants"
    mkdir "$scratch/mutants"
    awk -v to="$scratch/mutants" '
        { text[NR] = $0 }
        match($0, /@mutant [^ ]+: /) {
            name[++n] = substr($0, RSTART + 8, RLENGTH - 10)
            rest = substr($0, RSTART + RLENGTH)
            at = index(rest, " => ")
            old[n] = substr(rest, 1, at - 1); new[n] = substr(rest, at + 4)
            text[NR] = ""
        }
        END {
            for (m = 1; m <= n; m++) {
                file = name[m]; gsub("/", "@", file); file = to "/" file; found = 0
                printf "" > file
                for (i = 1; i <= NR; i++) {
                    line = text[i]
                    if ((at = index(line, old[m])) > 0) {
                        found++
                        line = substr(line, 1, at - 1) new[m] substr(line, at + length(old[m]))
                    }
                    print line > file
                }
                if (found != 1) print "mutant " name[m] ": its line stands " found " times in the file" > "/dev/stderr"
                if (found != 1) exit 1
            }
        }' "$1"
}

# A query for each goal, and for each case of it: all definitions and declarations before it, and its assertions. The solver begins
# anew with each: that is much faster than going on.
smt() {
    awk -v vectors="$2" -v only="${3:-}" '
        function query(assertions, value,  all) {
            all = definitions
            if (value != "") {
                sub("\\(declare-const " which[1] " ", "(define-fun " which[1] " () ", all)
                sub("\\(define-fun " which[1] " \\(\\) (Int|[(]_ BitVec 64[)])", "& " value, all)
            }
            print all "(echo \"" goal "\")\n" assertions "(check-sat)\n(reset)"
        }
        function end(  i) {
            if (goal == "" || (only != "" && goal != only)) { goal = ""; return }
            # A mutant is refused if one case refuses it.
            if (only != "" && cases > 4) cases = 4
            if (!cases) query(assertions, "")
            else for (i = 2; i <= (goal == "possible" ? 2 : cases); i++) query(assertions, which[i])
            goal = ""
        }
        /^;@(goal|possible|vectors)/ { end() }
        /^;@cases/ { cases = split($0, which, " ") - 1; for (i = 1; i <= cases; i++) which[i] = which[i + 1]; next }
        /^;@vectors/ {
            if (vectors == "") next
            assertions = "(assert (not (and"
            while ((getline line < vectors) > 0) if (line ~ /^\(/) assertions = assertions "\n  " line
            goal = "vectors"; assertions = assertions ")))\n"; end()
            next
        }
        /^;@goal/ { goal = $2; assertions = ""; next }
        /^;@possible/ { goal = "possible"; assertions = ""; next }
        # Declarations between goals belong to none.
        goal != "" && /^\((declare|define)/ { end() }
        /^;/ { next }
        goal != "" { assertions = assertions $0 "\n"; next }
        { definitions = definitions $0 "\n" }
        END { end() }' "$1"
}

bounds() {
    local file=$1 name start answer goals=0 out
    name=$(basename "$file" .smt2)
    start=$EPOCHREALTIME
    smt "$file" "${file%.smt2}.vectors" >"$scratch/query.smt2"
    timeout 900 z3 "$scratch/query.smt2" >"$scratch/out" 2>&1 || true
    if grep -q '(error' "$scratch/out"; then
        fail "$name: $(grep -m1 '(error' "$scratch/out")"
        return
    fi
    local count=0 seen=" "
    while read -r goal && read -r answer; do
        case $goal in
        possible) [[ $answer == sat ]] || fail "$name: the hypotheses are empty ($answer)" ;;
        vectors) [[ $answer == unsat ]] || fail "$name: the model disagrees with what the code did ($answer)" ;;
        *) [[ $answer == unsat ]] || fail "$name: $goal ($answer)" ;;
        esac
        count=$((count + 1))
        [[ $seen == *" $goal "* ]] || goals=$((goals + 1)) seen+="$goal "
    done <"$scratch/out"
    ((goals == $(grep -oE '^;@(goal .*|possible|vectors)' "$file" | sort -u | wc -l))) || fail "$name: $goals goals answered only"
    proven=$((proven + goals))
    printf '%-24s %3d goals, %3d queries %6.1f s\n' "$name" "$goals" "$count" "$(bc -l <<<"$EPOCHREALTIME - $start")"
    mutants "$file" || fail "$name: mutants"
    for mutant in "$scratch"/mutants/*; do
        [[ -e $mutant ]] || continue
        start=$EPOCHREALTIME
        goal=$(basename "$mutant")
        smt "$mutant" "" "${goal%%@*}" >"$scratch/query.smt2"
        timeout 900 z3 "$scratch/query.smt2" >"$scratch/out" 2>&1 || true
        grep -q '(error' "$scratch/out" && fail "$name: $(basename "$mutant"): $(grep -m1 '(error' "$scratch/out")"
        out=$(awk 'NR % 2 { goal = $0; next } $0 == "sat" && goal != "possible" && !told[goal]++ { printf "%s ", goal }' "$scratch/out")
        if [[ -n $out ]]; then
            refused=$((refused + 1))
            printf '  refused: %s (%.1f s)\n' "${goal/@//}" "$(bc -l <<<"$EPOCHREALTIME - $start")"
        else
            fail "$name: mutant $(basename "$mutant") is not refused"
        fi
    done
}
# The searches of a file, or those named so; prints "name kind found states" for each.
search() {
    awk -v only="${2:-}" '
        /^\*\*\*@/ { wanted = only == "" || $2 == only; next }
        /^search / && !wanted { skip = 1 }
        !skip { print }
        /\.$/ { skip = 0 }
        END { print "quit" }' "$1" >"$scratch/model.maude"
    timeout 600 maude -no-banner "$scratch/model.maude" </dev/null >"$scratch/out" 2>&1 || true
    if grep -q Warning "$scratch/out"; then
        fail "$1: $(grep -m1 -A1 Warning "$scratch/out")"
        return
    fi
    paste -d ' ' \
        <(awk -v only="${2:-}" '/^\*\*\*@(never|attack)/ && (only == "" || $2 == only) { print $2, substr($1, 5) }' "$1") \
        <(awk '/^No solution/ { found = "none" } /^Solution 1/ { found = "found" } /^states:/ { print found, $2 }' "$scratch/out")
}

models() {
    local file=$1 name start count=0 here=0 goal kind found visited mutant
    name=$(basename "$file" .maude)
    start=$EPOCHREALTIME
    while read -r goal kind found visited; do
        case $kind,$found in
        never,none | attack,found) ;;
        *) fail "$name: $goal ($kind: ${found:-no answer})" ;;
        esac
        count=$((count + 1)) here=$((here + ${visited:-0}))
    done < <(search "$file")
    ((count)) || fail "$name: no answer"
    states=$((states + here)) proven=$((proven + count))
    printf '%-24s %3d goals, %d states %6.1f s\n' "$name" "$count" "$here" "$(bc -l <<<"$EPOCHREALTIME - $start")"
    mutants "$file" || fail "$name: mutants"
    for mutant in "$scratch"/mutants/*; do
        [[ -e $mutant ]] || continue
        start=$EPOCHREALTIME
        goal=$(basename "$mutant")
        found=$(search "$mutant" "${goal%%@*}" | awk '{ print $3 }')
        if [[ $found == found ]]; then
            refused=$((refused + 1))
            printf '  refused: %s (%.1f s)\n' "${goal/@//}" "$(bc -l <<<"$EPOCHREALTIME - $start")"
        else
            fail "$name: mutant $goal is not refused"
        fi
    done
}
for file in bounds/*.smt2; do
    [[ $file != *"$word"* ]] || bounds "$file"
done
for file in models/*.maude; do
    [[ $file != *"$word"* ]] || models "$file"
done
if ((failed)); then
    echo "proofs: $failed failed" >&2
    exit 1
fi
echo "proofs: fine: $proven goals, $states states, $refused mutants refused, $SECONDS s"
