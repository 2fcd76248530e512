#!/usr/bin/env bash
# Makes a Docker engine answer, if one can be had: exit 0 then, 69 otherwise with the reason.
#
# An engine that answers is used as it is and never touched. One that is installed but not running is started: by the
# service manager where there is one, else by hand, detached, so that it outlives whoever called. An engine that was
# killed leaves pid files that keep its successor from starting; they are removed only when no such process lives.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

LOG="${FENCEPOST_DOCKERD_LOG:-/var/log/fencepost-dockerd.log}"
RUN_DIR=/var/run

# alive NAME: does a process of that name live? Zombies do not count.
alive() {
    local stat
    for stat in /proc/[0-9]*/stat; do
        [[ "$(cat "$stat" 2>/dev/null)" =~ \(($1)\)\ [^Z] ]] && return 0
    done
    return 1
}

# wait_for_engine SECONDS [PID]: until it answers, the time is over, or the process has ended.
wait_for_engine() {
    local end=$((SECONDS + $1))
    while [ "$SECONDS" -lt "$end" ]; do
        if engine_answers; then return 0; fi
        if [ -n "${2:-}" ] && ! kill -0 "$2" 2>/dev/null; then return 1; fi
        sleep 0.2
    done
    return 1
}

start_by_hand() {
    if ! alive containerd; then rm -f "$RUN_DIR/docker/containerd/containerd.pid"; fi
    rm -f "$RUN_DIR/docker.pid"
    say "start dockerd, its log is $LOG"
    # A session of its own and none of our descriptors: it must not hold a pipe of ours open, nor die with us.
    setsid nohup dockerd >>"$LOG" 2>&1 </dev/null 3>&- 4>&- &
    local pid=$!
    disown
    if wait_for_engine 60 "$pid"; then return 0; fi
    say "dockerd did not come up; from the end of $LOG:"
    tail -n 40 "$LOG" | grep -vE 'level=(debug|info|warning)' | tail -n 5 >&2 || true
    return 1
}

if engine_answers; then exit 0; fi
have docker || die "$EX_MISSING" "no docker command"
if [ -n "${DOCKER_HOST:-}" ]; then
    die "$EX_MISSING" "DOCKER_HOST is $DOCKER_HOST and nothing answers there"
fi
have dockerd || die "$EX_MISSING" "the docker command finds no engine, and dockerd is not installed here"
is_root || die "$EX_MISSING" "dockerd is installed and does not answer; starting it takes root (or membership of the docker group)"

if [ -d /run/systemd/system ]; then
    say "start the docker service"
    systemctl start docker && wait_for_engine 60
elif alive dockerd; then
    # Somebody's engine is on its way up, or hangs. Either way it is not ours to end.
    say "a dockerd process lives and does not answer yet; wait"
    wait_for_engine 60 || die "$EX_MISSING" "that dockerd still does not answer; end it and try again"
else
    start_by_hand
fi || exit "$EX_MISSING"
say "the engine answers: Docker $(docker version --format '{{.Server.Version}}')"
