#!/usr/bin/env bash
# Fuzzes the checker's readers with libFuzzer, on the stable compiler: TARGET (jsonl or edn; none: both), SECONDS each.
#
#   scripts/fuzz.sh            ten minutes each
#   scripts/fuzz.sh jsonl 60
#
# What it finds is kept in target/fuzz/TARGET; a crash or a hang ends it with the name of a file that shows it. SECONDS are
# those of the processor, and a hang is a minute without an answer: on a busy machine a time of day says little.
# cargo-fuzz, which needs the nightly compiler, runs the same targets from checker/fuzz: cargo +nightly fuzz run jsonl
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(jsonl edn)
if [ -n "${1:-}" ]; then targets=("$1"); fi
seconds=${2:-600}

# Coverage as cargo-fuzz asks for it; none of these flags needs nightly.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
RUSTFLAGS=${RUSTFLAGS//$'\n'/}
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --locked --manifest-path checker/fuzz/Cargo.toml --target "$host"

for target in "${targets[@]}"; do
    kept=target/fuzz/$target
    mkdir -p "$kept"
    # The golden histories are seeds too.
    seeds=("checker/fuzz/corpus/$target")
    if [ "$target" = jsonl ]; then seeds+=(checker/tests/golden); fi
    nice "$CARGO_TARGET_DIR/$host/debug/$target" "$kept" "${seeds[@]}" -timeout=60 -rss_limit_mb=2048 -max_len=16384 \
        -artifact_prefix="target/fuzz/" -print_final_stats=1 -verbosity=0 &
    pid=$!
    trap 'kill "$pid" 2>/dev/null || true' EXIT
    used=0
    while [ "$used" -lt "$seconds" ] && kill -0 "$pid" 2>/dev/null; do
        sleep 1
        used=$(ps -o cputimes= -p "$pid" | tr -d " " || true)
        used=${used:-0}
    done
    # Asked so, it ends with 0.
    kill -USR1 "$pid" 2>/dev/null || true
    wait "$pid"
    trap - EXIT
    echo "$target: $used s of processor time, no crash and no hang"
done
