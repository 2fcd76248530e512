# shellcheck shell=bash disable=SC2034
# What the set-up scripts share: words on stderr, exit codes, questions about this machine.
# Sourced, never run. Exit codes are those of the command itself: 64 what the user gave, 69 what is missing.

EX_USAGE=64
EX_MISSING=69

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Logs and built tools stay under target/, which git ignores and `make clean` removes.
SETUP_DIR="$ROOT/target/setup"
TOOLS_DIR="$ROOT/target/tools"

say() { printf 'setup: %s\n' "$*" >&2; }
hint() { printf 'hint: %s\n' "$*" >&2; }
die() { # die CODE WORDS...
    local code=$1
    shift
    say "$*"
    exit "$code"
}

have() { command -v "$1" >/dev/null 2>&1; }

# Does an engine answer? Five seconds are plenty for one that is alive; a hung one must not hang the set-up.
engine_answers() { have docker && timeout 5 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

# The family whose packages we know by name.
is_debian() {
    [ -r /etc/os-release ] || return 1
    # shellcheck disable=SC1091
    (. /etc/os-release && [[ " ${ID:-} ${ID_LIKE:-} " == *" debian "* || " ${ID:-} " == *" ubuntu "* ]])
}

# May this run install packages and start an engine? Asks on a terminal; elsewhere CI=true or YES=1 is the yes.
# consent WHAT
consent() {
    if [ "${YES:-}" = 1 ] || [ "${CI:-}" = true ]; then
        return 0
    fi
    if [ -t 0 ] && [ -t 2 ]; then
        local answer
        printf 'setup: %s\nsetup: go on? [y/N] ' "$1" >&2
        read -r answer
        [[ "$answer" == [yY]* ]]
        return
    fi
    say "$1"
    hint "no terminal to ask on: set YES=1 to agree"
    return 1
}
