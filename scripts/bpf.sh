#!/usr/bin/env bash
# The XDP programs: C in crates/xdp/bpf, and the objects that one pinned clang makes of it. The objects are committed and
# built into the crate, so that a build needs no clang; whether the kernel's verifier takes a program depends on its compiler too.
#
#   scripts/bpf.sh build [DIRECTORY]    makes the objects anew; with a directory, of a copy of the sources there
#   scripts/bpf.sh check                the same apart, and compares octet by octet; sums the stacks of calls
#
# scripts/setup.sh ci installs the compiler. Without it: apt-get install clang-19 llvm-19
set -euo pipefail
sources=$(cd "$(dirname "$0")/../crates/xdp/bpf" && pwd)

pinned=19.1.7
objects=(cell.bpf.o link.bpf.o redirect.bpf.o site.bpf.o vectors.bpf.o)

stack=()
# Of an object: each chain of calls whose frames, each rounded up to 32 octets as kernels do, exceed the 512 that there are.
deep_chains() {
    llvm-objdump-19 -dr --no-show-raw-insn "$1" | awk -v su="${1%.o}.su" '
        BEGIN { while ((getline line < su) > 0) { split(line, part, "\t"); n = split(part[1], word, ":"); frame[word[n]] = int((part[2] + 31) / 32) * 32 } }
        /^[0-9a-f]+ <.*>:$/ { at = substr($2, 2, length($2) - 3) }
        $2 == "R_BPF_64_32" { calls[at] = calls[at] " " $3 }
        function follow(name, above, chain, callees, n, i) {
            if (!(name in frame)) { print "no frame is known of " name; return }
            above += frame[name] ? frame[name] : 32; chain = chain " " name
            if (above > 512) { print above " octets of stack:" chain; return }
            n = split(calls[name], callees, " ")
            for (i = 1; i <= n; i++) follow(callees[i], above, chain)
        }
        END { for (name in frame) follow(name, 0, "") }' | sort -u
}

fail() {
    printf 'bpf: %s\n' "$@" >&2
    exit 1
}

case ${1:-} in
build)
    sources=${2:-$sources}
    into=$sources
    ;;
check)
    into=$(mktemp -d)
    trap 'rm -r "$into"' EXIT
    stack=(-fstack-usage)
    ;;
*)
    echo "usage: scripts/bpf.sh build [DIRECTORY] | check" >&2
    exit 2
    ;;
esac

for tool in clang-19 llvm-strip-19 llvm-objdump-19; do
    command -v "$tool" >/dev/null || fail "$tool is missing: scripts/setup.sh ci installs it (Debian: clang-19, llvm-19)"
done
found=$(clang-19 -dumpversion)
[[ $found == "$pinned" ]] || fail "clang $pinned makes the objects, and this is $found: another one makes others"

cd "$sources"
differ=0
for object in "${objects[@]}"; do
    # -mcpu=v3: Linux 5.1 and later. -g for BTF, which says where locks stand and what global functions take; the rest of what
    # debuggers read is taken out again. No path of this machine gets in.
    clang-19 -target bpf -mcpu=v3 -O2 -g -fdebug-compilation-dir=. -nostdinc "${stack[@]}" -Wall -Wextra -Werror -c "${object%.o}.c" -o "$into/$object"
    llvm-strip-19 --strip-debug "$into/$object"
    if ((${#stack[@]})); then
        deep=$(deep_chains "$into/$object")
        [[ -z $deep ]] || fail "$object: $deep"
    fi
    if [[ $into != "$sources" ]] && ! cmp "$into/$object" "$object"; then
        differ=1
    fi
done
((!differ)) || fail "an object is not what clang makes of the source: scripts/bpf.sh build, and commit it"
echo "bpf: fine: ${objects[*]}"
