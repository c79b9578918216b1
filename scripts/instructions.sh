#!/usr/bin/env bash
# Counts the instructions that protecting and verifying a frame takes, and compares them with the committed figures.
#   scripts/instructions.sh           fails above +3 %
#   scripts/instructions.sh renew     writes bench/instructions.json anew, on purpose
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --quiet --package frameward-bench --bin instructions
exec target/release/instructions "${1:-check}"
