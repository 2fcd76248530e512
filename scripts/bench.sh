#!/usr/bin/env bash
# `make bench`: every figure that the project states for itself, each with its limit. About ten minutes.
#
#   scripts/bench.sh [--quick]     --quick: short, limits three times as wide (what `make test` runs)
# FENCEPOST_BENCH=cluster|tap|latency|cycles|memory runs one part; FENCEPOST_BACKEND=local measures local processes.
# Exit: 0 all limits kept, 1 one missed, 69 redis-benchmark is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in redis-benchmark redis-cli; do
    command -v "$tool" >/dev/null || { echo "bench: $tool is missing; \`make setup\` installs it (redis-tools)" >&2; exit 69; }
done
# What is measured is what `cargo install` gives; the short form is built as the tests are, which costs no second build.
build=(--release) made=release
[[ " $* " != *" --quick "* ]] || build=() made=debug
${CARGO:-cargo} build --quiet --locked "${build[@]}" --example bench
exec "target/$made/examples/bench" "$@"
