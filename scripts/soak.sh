#!/usr/bin/env bash
# `make soak`: every outcome that the project promises, twenty times each, on containers, without retries.
#
# A run counts when its verdict is as the workload's own `expect` says. A promise that something breaks must hold in
# 19 of 20 runs: the machine may spoil one. A promise that nothing breaks must hold in all 20.
# Arguments: names of workloads, to run only those. RUNS=5 for a shorter one, BACKEND=local without an engine.
# Exit: 0 all promises held, 1 one did not, 64 an unknown name.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-20}
BACKEND=${BACKEND:-docker}
FENCEPOST=target/debug/fencepost

# workload (a file in workloads/, without .toml) | breaks or holds | what it shows
PROMISES=(
    "plain-del                  | breaks | holder paused, plain DEL: ownership, explained"
    "get-then-del               | breaks | GET, then DEL, latency between: ownership"
    "no-ttl-crash               | breaks | no lease and a killed holder: deadlock"
    "lua-pause-overrun          | breaks | holder paused past the TTL: overrun, and effects without a fence"
    "redlock-thin-restart-empty | breaks | Redlock, a node restarted empty while the quorum is thin: service"
    "none-control               | breaks | no lock at all is caught"
    "lua-pause-fenced           | holds  | the fence on first access: no effects"
    "redlock-one-node-killed    | holds  | Redlock, all data kept, one node killed: service"
    "perfect-control            | holds  | the driver's own lock: nothing"
)

names=()
for line in "${PROMISES[@]}"; do
    IFS='|' read -r name _ <<<"$line"
    names+=("${name// /}")
    [ -f "workloads/${name// /}.toml" ] || { echo "soak: workloads/${name// /}.toml is missing" >&2; exit 70; }
done
for want in "$@"; do
    if [[ " ${names[*]} " != *" $want "* ]]; then
        echo "soak: no workload '$want'; there are: ${names[*]}" >&2
        exit 64
    fi
done

marker=$(mktemp)
trap 'rm -f "$marker"' EXIT
table=()
failed=0
for line in "${PROMISES[@]}"; do
    IFS='|' read -r name kind about <<<"$line"
    name=${name// /} kind=${kind// /}
    if [ "$#" -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    case "$kind" in
        breaks) least=$((RUNS * 19 / 20)) ;;
        holds) least=$RUNS ;;
        *) echo "soak: $name: \`$kind\` is neither breaks nor holds" >&2; exit 70 ;;
    esac
    echo "== $name:$about"
    touch "$marker"
    # Its exit code speaks about all runs together; the verdicts below are counted one by one.
    "$FENCEPOST" run "workloads/$name.toml" --backend "$BACKEND" --repeat "$RUNS" || true
    # The verdict's own outcome comes first in the file; valid means as expected.
    outcomes=$(find results -name verdict.json -newer "$marker" | sort |
        xargs -r -n 1 grep -o -m 1 '"outcome": *"[a-z]*"' | sed 's/.*"\([a-z]*\)"$/\1/')
    total=$(grep -c . <<<"$outcomes" || true)
    good=$(grep -cx valid <<<"$outcomes" || true)
    echo "outcomes of $name: $(tr '\n' ' ' <<<"$outcomes")"
    mark=ok
    if [ "$total" -ne "$RUNS" ] || [ "$good" -lt "$least" ]; then
        mark=FAILED
        failed=1
    fi
    table+=("$(printf '%-7s %3d of %3d as expected, at least %3d  %s' "$mark" "$good" "$total" "$least" "$name")")
done
echo
printf '%s\n' "${table[@]}"
exit "$failed"
