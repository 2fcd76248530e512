#!/bin/sh
# The entry point of fencepost's server images. It keeps the conventions of the official redis and valkey images,
# so that either can stand in for the other:
#   docker run IMAGE                                  the default server
#   docker run IMAGE --appendonly yes                 flags alone go to the default server
#   docker run IMAGE redis-server [FILE] --flags      the same, spelled out
#   docker run IMAGE redis-cli -h HOST PING           any other command runs as it is
# A server started by root runs as the package's own user, which then owns the data folder.
set -e

# The package's user, and the prefix of its commands.
user=redis
if id valkey >/dev/null 2>&1; then user=valkey; fi

# No command, only flags or a configuration file.
case "${1:-}" in
    '' | -* | *.conf) set -- "$user-server" "$@" ;;
esac

case "$1" in
    redis-server | valkey-server | redis-sentinel | valkey-sentinel)
        if [ "$(id -u)" = 0 ]; then
            find . ! -user "$user" -exec chown "$user" '{}' +
            exec setpriv --reuid="$user" --regid="$user" --clear-groups "$0" "$@"
        fi
        # The official images have protected mode compiled out. Debian's servers have it on, and would refuse every
        # other container; a configuration file says for itself what it wants.
        server="$1"
        shift
        case "$server/${1:-}" in
            *-sentinel/* | */-v | */--version | */-h | */--help | */--test-memory | */--check-system | */-) ;;
            */ | */--*) set -- --protected-mode no "$@" ;;
        esac
        set -- "$server" "$@"
        ;;
esac

exec "$@"
