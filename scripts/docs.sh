#!/usr/bin/env bash
# Keeps the documents true: what they name has to exist, and what they show has to work.
#
#   - links to files, and paths between backticks, lead somewhere;
#   - links in the book stay in the book: the package has no file of the repository beside it;
#   - a link [`test`](file.rs) leads to a file with a function of that name;
#   - identifiers of several words between backticks occur in the sources;
#   - `make TARGET` is a target;
#   - each promise of SECURITY.md (in bold) has a row in the section of that name in docs/assurance.md;
#   - every configuration in README.md and in the book passes `frameward check --offline`, with new keys.
#
# With a directory as argument it looks at the documents there, and at the sources here.
set -euo pipefail
cd "$(dirname "$0")/.."
documents=${1:-.}

book=$(realpath -m "$documents/docs/book/src")
breaches=0
breach() {
    printf 'docs: %s\n' "$*" >&2
    breaches=$((breaches + 1))
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
find crates testkit bench fuzz tests proofs scripts packaging contrib .ci Makefile Cargo.toml deny.toml -name target -prune -o -path fuzz/corpus -prune -o -name vectors -prune \
    -o -type f -print0 | xargs -0 cat >"$scratch/sources"
knows() { grep -qwF -- "$1" "$scratch/sources"; }

names() {
    local document=$1 text target word name
    # Links: [text](target), without those to elsewhere and to sections.
    while IFS=$'\t' read -r text target; do
        target=${target%%#*}
        case $target in http*://* | mailto:* | "") continue ;; esac
        if [[ $document == */docs/book/src/* && ! -e $(dirname "$document")/$target ]]; then
            breach "$document: the link to $target leads nowhere in the book"
        elif [[ $document == */docs/book/src/* && $(realpath "$(dirname "$document")/$target") != "$book"/* ]]; then
            breach "$document: the link to $target leaves the book, and is broken in the package: name the file between backticks"
        elif [[ ! -e $(dirname "$document")/$target && ! -e $target ]]; then
            breach "$document: the link to $target leads nowhere"
        elif [[ $target == *.rs && $text =~ ^\`([a-z0-9_]+)\`$ ]]; then
            grep -qE "fn ${BASH_REMATCH[1]}\(" "$target" || breach "$document: $target has no function ${BASH_REMATCH[1]}"
        fi
    done < <(tr '\n' ' ' <"$document" | grep -oE '\[[^][]*\]\([^)]*\)' | sed -E 's/^\[([^]]*)\]\(([^)]*)\)$/\1\t\2/')
    while read -r word; do
        case $word in
        make\ *) grep -qE "^${word#make }:" Makefile || breach "$document: $word is no target" ;;
        crates/* | scripts/* | tests/* | fuzz/* | bench/* | testkit/* | docs/* | packaging/* | contrib/* | tools/* | proofs/* | .ci/* | [A-Z]*.md)
            word=${word%%::*}; compgen -G "${word%% *}" >/dev/null || breach "$document: $word does not exist"
            ;;
        *)
            [[ $word =~ ^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*(\(\))?$ && ($word == *_* || $word == *::*) ]] || continue
            name=${word%\(\)}
            for name in ${name//::/ }; do knows "$name" || breach "$document: $word: nothing is called $name"; done
            ;;
        esac
    done < <(grep -vE '^ {4,}' "$document" | awk '/^```/ { inside = !inside; next } !inside' | grep -oE '`[^`]+`' | tr -d '`' | sort -u)
}

checked=0
for document in "$documents"/*.md "$documents"/docs/*.md "$documents"/docs/*/*.md "$documents"/docs/*/*/*.md; do
    [[ -e $document ]] || continue
    names "$document"
    checked=$((checked + 1))
done

# Promises: of all sections but those of scope and limits, as far as "Not promised".
if [[ -e $documents/SECURITY.md ]]; then
    rows=$(awk -F ' *[|] *' '/^## / { section = substr($0, 4) } /^[|] / { print section "|" $2 }' "$documents/docs/assurance.md")
    while IFS='|' read -r section name; do
        [[ $section != "The box" && $section != "Status, HTTP and doctor" ]] || section="The box, status, HTTP and doctor"
        grep -qxF "$section|$name" <<<"$rows" || breach "docs/assurance.md: $section: no row says what holds the promise $name"
    done < <(awk '/^## / { section = substr($0, 4); on = section !~ /^(Scope|Known limits)/ } /^Not promised/ { on = 0 }
        on && match($0, /^- \*\*[^*]+\*\*/) { name = substr($0, 5, RLENGTH - 6); sub(/\.$/, "", name); print section "|" name }' "$documents/SECURITY.md")
fi

# The configurations: each block that begins with ```toml. Keys are made for the suite of the block.
cargo build --quiet --locked --package frameward
frameward=${CARGO_TARGET_DIR:-target}/debug/frameward
awk -v to="$scratch" '/^```toml/ { file = to "/" ++n ".toml"; printf "" > file; next } /^```/ { file = ""; next } file { print > file }' "$documents/README.md" $(find "$documents/docs/book/src" -name '*.md' ! -name configuration.md 2>/dev/null | sort)
configurations=0
for configuration in "$scratch"/*.toml; do
    [[ -e $configuration ]] || break
    bits=128
    grep -qE '^suite *= *"(gcm-aes-(xpn-)?256|chacha20-poly1305|aegis-256)"' "$configuration" && bits=256
    while read -r key; do
        [[ -e $scratch/$key ]] || "$frameward" keygen static --bits "$bits" --out "$scratch/$key" >/dev/null
    done < <(sed -nE 's/^ *key_file *= *"([^"]*)".*/\1/p' "$configuration")
    while read -r cak; do
        [[ -e $scratch/$cak ]] || "$frameward" keygen cak --bits "$bits" --out "$scratch/$cak" >/dev/null
    done < <(sed -nE 's/^ *(fallback_)?cak_file *= *"([^"]*)".*/\2/p' "$configuration")
    while read -r master; do
        [[ -e $scratch/$master ]] || "$frameward" keygen fieldbus --out "$scratch/$master" >/dev/null
    done < <(sed -nE 's/^ *master_key_file *= *"([^"]*)".*/\1/p' "$configuration")
    while read -r identity; do
        [[ -e $scratch/$identity ]] || "$frameward" keygen site --out "$scratch/$identity" >/dev/null
    done < <(sed -nE 's/^ *identity *= *"([^"]*)".*/\1/p' "$configuration")
    if ! told=$("$frameward" check --offline "$configuration" 2>&1); then
        breach "README.md or the book: configuration $(basename "$configuration" .toml) is refused:"$'\n'"$told"
    fi
    rm -f "$scratch"/*.key "$scratch"/*.cak
    configurations=$((configurations + 1))
done
# The package's examples.
cp packaging/press-line.toml "$scratch/"
for key in own peer; do "$frameward" keygen static --out "$scratch/$key.key" >/dev/null; done
told=$("$frameward" check --offline "$scratch/press-line.toml" 2>&1) || breach "packaging/press-line.toml is refused:"$'\n'"$told"
cp packaging/cell.toml "$scratch/"
"$frameward" keygen cak --out "$scratch/cell.cak" >/dev/null
"$frameward" keygen fieldbus --out "$scratch/cell.key" >/dev/null
told=$("$frameward" check --offline "$scratch/cell.toml" 2>&1) || breach "packaging/cell.toml is refused:"$'\n'"$told"
((configurations)) || breach "README.md shows no configuration"

if ((breaches)); then
    echo "docs: $breaches breaches" >&2
    exit 1
fi
echo "docs: fine: $checked documents, $configurations configurations"
