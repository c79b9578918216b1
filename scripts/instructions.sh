#!/usr/bin/env bash
# Counts the instructions that a frame takes: to protect and verify it, to fragment and reassemble it, to send and
# receive it in a tunnel. Compares them with the committed figures.
#   scripts/instructions.sh           fails above +3 %
#   scripts/instructions.sh renew     writes bench/instructions.json anew, on purpose
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --quiet --package frameward-bench --bin instructions
exec target/release/instructions "${1:-check}"
