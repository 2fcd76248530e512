#!/usr/bin/env bash
# `make setup`: packages, a Docker engine, Toxiproxy, the images. A second run takes about a second.
#
#   docker/setup.sh [-- COMMAND ...]     COMMAND (say `cargo build`) runs beside the images, once the packages are in
#
# Asks before it installs anything. Without a terminal, CI=true or YES=1 is the yes; as root on Debian or Ubuntu it
# then installs what is missing, elsewhere it says what to do. An engine that answers is used and never touched.
# Where no engine can be had, the local backend does, and the set-up says so;
# FENCEPOST_REQUIRE_DOCKER=1 makes that a failure.
# Exit: 0 ready, 64 wrong arguments, 69 something is missing, or the exit code of COMMAND.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

DOCKER_DIR="$ROOT/docker"
missing=()  # packages without which nothing builds or runs
optional=() # packages for the local backend and `make bench`
engine=""   # 1 once an engine answers

# A toolchain is the user's own choice, so it is asked for, not installed.
check_toolchains() {
    local ok=1
    if ! have cargo; then
        say "cargo is missing"
        hint "install Rust with rustup, or put cargo on PATH (1.90 or newer)"
        ok=""
    fi
    if ! have go && [ ! -x "$TOOLS_DIR/toxiproxy-server" ]; then
        say "go is missing; it builds Toxiproxy from its Go module (1.23 or newer)"
        hint "install Go, or put it on PATH"
        ok=""
    fi
    [ -n "$ok" ] || exit "$EX_MISSING"
}

find_missing() {
    have cc || missing+=(gcc libc6-dev)
    if [ "$(uname -s)" = Linux ]; then
        have pkg-config || missing+=(pkg-config)
        pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev)
        # cargo brings its own roots, go does not.
        [ -d /etc/ssl/certs ] || missing+=(ca-certificates)
    fi
    have redis-server || optional+=(redis-server)
    have redis-benchmark || optional+=(redis-tools)
    # For the tests of junit.xml and of the Kubernetes manifest.
    have xmllint || optional+=(libxml2-utils)
    python3 -c 'import ensurepip, venv' 2>/dev/null || optional+=(python3-venv)
    [ -n "$engine" ] && [ "${FENCEPOST_BASE:-pull}" = pull ] && return
    # Without an engine of the user's own, the images' bases are made here.
    have dockerd || optional+=(docker.io)
    [ "${FENCEPOST_BASE:-}" = pull ] || have mmdebstrap || optional+=(mmdebstrap debian-archive-keyring)
}

# Installs packages without letting any of them start a service: a redis-server on 6379 that nobody asked for would
# be in somebody's way, and dockerd is started by docker/engine.sh.
install_packages() {
    local guard=/usr/sbin/policy-rc.d
    if [ ! -e "$guard" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$guard"
        chmod 755 "$guard"
        # shellcheck disable=SC2064
        trap "rm -f '$guard'" EXIT
    fi
    say "install: $*"
    local log="$SETUP_DIR/apt.log"
    local -a apt=(apt-get -o DPkg::Lock::Timeout=300 --yes)
    export DEBIAN_FRONTEND=noninteractive
    if ! "${apt[@]}" update >"$log" 2>&1; then
        # An outdated list may do; the installation decides.
        say "apt-get update failed; go on with the lists that are here"
    fi
    local -a names=("$@")
    # Debian 13 and newer keep the docker command in a package of its own.
    if [[ " $* " == *" docker.io "* ]] && apt-cache show docker-cli >/dev/null 2>&1; then
        names+=(docker-cli)
    fi
    if ! "${apt[@]}" install --no-install-recommends "${names[@]}" >>"$log" 2>&1; then
        say "the installation failed; the end of $log:"
        tail -n 15 "$log" >&2
        exit "$EX_MISSING"
    fi
    if [ -d /run/systemd/system ] && [[ " $* " == *" redis-server "* ]]; then
        systemctl disable --now redis-server >>"$log" 2>&1 || true
    fi
    if [ "$(trap -p EXIT)" ]; then
        rm -f "$guard"
        trap - EXIT
    fi
}

get_packages() {
    find_missing
    local -a all=("${missing[@]}" "${optional[@]}")
    [ "${#all[@]}" -gt 0 ] || return 0
    if is_root && is_debian && consent "this would install with apt-get: ${all[*]}"; then
        install_packages "${all[@]}"
        return
    fi
    if is_debian; then
        hint "apt-get install ${all[*]}"
    else
        hint "these are Debian's names; install the like of: ${all[*]}"
    fi
    [ "${#missing[@]}" = 0 ] || die "$EX_MISSING" "these are needed to build: ${missing[*]}"
    say "go on without: ${optional[*]}"
}

get_engine() {
    [ -n "$engine" ] && return
    if have dockerd && is_root && [ -z "${DOCKER_HOST:-}" ]; then
        consent "this would start dockerd" || return 0
    fi
    if "$DOCKER_DIR/engine.sh"; then engine=1; fi
}

if [ "$#" -gt 0 ]; then
    if [ "$1" != -- ] || [ "$#" -lt 2 ]; then die "$EX_USAGE" "usage: docker/setup.sh [-- COMMAND ...]"; fi
    shift
fi
mkdir -p "$SETUP_DIR"
if engine_answers; then engine=1; fi
check_toolchains
get_packages
get_engine

# Images and Toxiproxy beside the command: the one waits for disks and servers, the other for the processors.
images="" toxiproxy=""
trap 'kill $images $toxiproxy 2>/dev/null; exit 130' INT TERM
if [ -n "$engine" ]; then
    "$DOCKER_DIR/images.sh" &
    images=$!
elif [ "${FENCEPOST_REQUIRE_DOCKER:-}" = 1 ]; then
    die "$EX_MISSING" "no Docker engine can be had, and FENCEPOST_REQUIRE_DOCKER=1 asks for one"
else
    say "no Docker engine can be had here: the local backend (redis-server and toxiproxy-server as processes) is used"
    have redis-server || die "$EX_MISSING" "and redis-server is not installed either"
fi
"$DOCKER_DIR/toxiproxy.sh" &
toxiproxy=$!

code=0
if [ "$#" -gt 0 ]; then "$@" || code=$?; fi
wait "$toxiproxy" || die "$EX_MISSING" "Toxiproxy could not be built"
if [ -n "$images" ]; then wait "$images" || die "$EX_MISSING" "the images could not be built"; fi
exit "$code"
