#!/usr/bin/env bash
# Counts the instructions that protecting and verifying a frame takes, and fails above 3 % more than committed.
#
#   scripts/instructions.sh            compare with bench/instructions.json
#   scripts/instructions.sh --renew    write bench/instructions.json, on purpose: say in the commit why
#
# How it counts, and why the figures do not depend on the machine: bench/src/bin/instructions.rs.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || {
    echo "instructions: valgrind is missing; scripts/setup.sh ci installs it" >&2
    exit 1
}
exec cargo run --quiet --release --locked --package frameward-bench --bin instructions -- guard "$@"
