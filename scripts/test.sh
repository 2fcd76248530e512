#!/usr/bin/env bash
# Runs every test and closes with the runners' own closing lines and the container tests that were skipped.
# Arguments go to `cargo test`. Exit: cargo's; 1 if a container test was skipped and FENCEPOST_REQUIRE_DOCKER=1.
set -euo pipefail
cd "$(dirname "$0")/.."

log=target/test.log
# A test that needs an engine and finds none adds its name here (tests/common); nobody else writes to it.
skipped=target/skipped-container-tests
mkdir -p target
rm -f "$skipped"

code=0
cargo test --workspace --locked --no-fail-fast "$@" 2>&1 | tee "$log" || code=$?

echo
echo "closing lines:"
grep -E '^test result: ' "$log" || { echo "none: no test ran"; exit 1; }
failed=$(grep -E '^test .* \.\.\. FAILED$' "$log" || true)
if [ -n "$failed" ]; then printf '%s\n' "$failed"; fi
awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$log"

if [ -s "$skipped" ]; then
    echo "container tests skipped, no engine answered:"
    sort -u "$skipped" | sed 's/^/  /'
    if [ "${FENCEPOST_REQUIRE_DOCKER:-}" = 1 ]; then exit 1; fi
fi
exit "$code"
