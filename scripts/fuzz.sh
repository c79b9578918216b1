#!/usr/bin/env bash
# Each fuzz target for SECONDS seconds, from the committed corpus on; finds are not added to it.
#
#   scripts/fuzz.sh SECONDS [TARGET...]
#
# Stops with status 1 when a target crashes, and tells the command that reproduces the crash. To keep new finds:
#   cargo +nightly fuzz run TARGET && cargo +nightly fuzz cmin TARGET
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET...]}
shift
toolchain=${FUZZ_TOOLCHAIN:-nightly}

cargo "+$toolchain" fuzz build
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cargo "+$toolchain" fuzz list)
binaries=target/$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')/release

# In memory, where there is one: three targets work on files.
memory=/dev/shm
[[ -w $memory ]] || memory=${TMPDIR:-/tmp}
finds=$(mktemp -d -p "$memory" frameward-fuzz.XXXXXX)
trap 'rm -rf "$finds"' EXIT
export TMPDIR=$finds
crashed=()
printf '%-10s %10s %10s %9s %9s %8s\n' target runs runs/s edges features corpus
for target in "${targets[@]}"; do
    mkdir -p "$finds/$target" "artifacts/$target" "corpus/$target"
    log=$finds/$target.log
    if ! "$binaries/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
        -artifact_prefix="artifacts/$target/" "$finds/$target" "corpus/$target" >"$log" 2>&1; then
        crashed+=("$target")
        tail -n 40 "$log"
        artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        printf '\n!!! %s crashes; reproduce it with\n    cd fuzz && cargo +%s fuzz run %s %s\n\n' \
            "$target" "$toolchain" "$target" "${artifact:-(no artifact: see above)}"
        continue
    fi
    runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log")
    took=$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$log")
    last=$(grep -E '^#[0-9]+.*cov: ' "$log" | tail -n 1)
    printf '%-10s %10d %10d %9s %9s %8s\n' "$target" "$runs" $((runs / (took > 0 ? took : 1))) \
        "$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' <<<"$last")" \
        "$(sed -n 's/.*ft: \([0-9]*\).*/\1/p' <<<"$last")" \
        "$(sed -n 's/.*corp: \([0-9]*\).*/\1/p' <<<"$last")"
done
((${#crashed[@]} == 0)) || {
    printf '!!! crashed: %s\n' "${crashed[*]}"
    exit 1
}
