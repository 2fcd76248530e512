#!/usr/bin/env bash
# Builds fencepost's images, each only when its recipe changed, side by side.
#
#   docker/images.sh            build what is missing or outdated
#   docker/images.sh --check    exit 0 if all are there and current, 1 if not; builds nothing
#   docker/images.sh --force    build all of them again (newer packages, same recipe)
#
# An image carries its recipe's hash as the label fencepost.recipe. The recipe is its folder, what else it copies, and its
# base. Where the base comes from is FENCEPOST_BASE:
#   pull        debian:bookworm-slim and debian:trixie-slim, found locally or pulled by the engine
#   bootstrap   fencepost/base:*, made here by mmdebstrap from this host's package sources. Such a base may carry
#               this host's apt settings: it stays on this machine, never push it
#   (not set)   bootstrap as root where mmdebstrap is installed, else pull
# FENCEPOST_IMAGES, names with spaces between, leaves it at these (`make demo` needs two).
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

DOCKER_DIR="$ROOT/docker"
BASES=(bookworm trixie)
# name of the image | folder of its Dockerfile | Debian suite of its base (- for none)
IMAGES=(
    "fencepost/redis:7|redis7|bookworm"
    "fencepost/redis:8|redis8|trixie"
    "fencepost/valkey:8|valkey8|trixie"
    "fencepost/etcd:3.4|etcd|bookworm"
    "fencepost/etcd:3.5|etcd|trixie"
    "fencepost/zookeeper:3.8|zookeeper|bookworm"
    "fencepost/toxiproxy:2.12|toxiproxy|-"
)
if [ -n "${FENCEPOST_IMAGES:-}" ]; then
    wanted=()
    for name in $FENCEPOST_IMAGES; do
        found=
        for line in "${IMAGES[@]}"; do
            if [ "${line%%|*}" = "$name" ]; then wanted+=("$line") found=1; fi
        done
        [ -n "$found" ] || die "$EX_USAGE" "FENCEPOST_IMAGES names \`$name\`, which is none of ${IMAGES[*]%%|*}"
    done
    IMAGES=("${wanted[@]}")
fi

# Like Debian's own slim images: apt, no manuals, no translations, and no service starts at installation.
# shellcheck disable=SC2016  # $1 is the hook's own
BOOTSTRAP=(
    --quiet --variant=apt
    --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/info/*'
    --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/doc/*'
    --dpkgopt='path-include=/usr/share/doc/*/copyright'
    --customize-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"'
)

# Without this hook of its own, mmdebstrap pulls usrmerge into bookworm, and with it 45 MB of perl.
merged_usr=/usr/share/mmdebstrap/hooks/merged-usr
if [ -d "$merged_usr" ]; then BOOTSTRAP+=(--hook-dir="$merged_usr"); fi

mode="${FENCEPOST_BASE:-}"
if [ -z "$mode" ]; then
    if is_root && have mmdebstrap; then mode=bootstrap; else mode=pull; fi
fi
case "$mode" in
    pull | bootstrap) ;;
    *) die "$EX_USAGE" "FENCEPOST_BASE is \`$mode\`; it can be \`pull\` or \`bootstrap\`" ;;
esac

hash_of() { sha256sum | cut -c1-16; }

base_name() { # base_name SUITE
    if [ "$mode" = bootstrap ]; then echo "fencepost/base:$1"; else echo "debian:$1-slim"; fi
}

base_recipe() { # base_recipe SUITE
    if [ "$mode" = bootstrap ]; then printf '%s\n' "$1" "${BOOTSTRAP[@]}" | hash_of; else base_name "$1"; fi
}

image_recipe() { # image_recipe FOLDER SUITE
    {
        cat "$DOCKER_DIR/$1"/*
        if [ "$2" = - ]; then
            cat "$DOCKER_DIR/toxiproxy.sh"
        else
            cat "$DOCKER_DIR/entrypoint.sh"
            base_recipe "$2"
        fi
    } | hash_of
}

# "name recipe" of every image of ours that the engine has, asked once.
present=""
look() {
    # shellcheck disable=SC2016  # a Go template
    present=$(docker image ls -q --filter label=fencepost.recipe |
        sort -u | xargs -r docker image inspect \
        --format '{{$r := index .Config.Labels "fencepost.recipe"}}{{range .RepoTags}}{{.}} {{$r}}{{"\n"}}{{end}}')
}
current() { grep -qxF "$1 $2" <<<"$present"; } # current NAME RECIPE

# The engine stops reading at an archive's end mark, before the padding: a tar that still writes it into a pipe dies of
# SIGPIPE, and a good image counts as failed. So every archive is a file first.
build_base() { # build_base SUITE
    local name recipe archive
    name=$(base_name "$1") recipe=$(base_recipe "$1")
    if current "$name" "$recipe"; then return; fi
    say "$name: bootstrap Debian $1"
    archive="$SETUP_DIR/base-$1.tar"
    mmdebstrap "${BOOTSTRAP[@]}" "$1" - >"$archive" || return
    docker import --change "LABEL fencepost.recipe=$recipe" --change 'CMD ["bash"]' - "$name" <"$archive" || return
    rm -f "$archive"
}

build_image() { # build_image NAME FOLDER SUITE
    local name=$1 folder=$2 suite=$3 recipe archive
    archive="$SETUP_DIR/context-$folder.tar"
    recipe=$(image_recipe "$folder" "$suite")
    if [ -z "$force" ] && current "$name" "$recipe"; then return; fi
    say "$name: build"
    local -a args=(--label "fencepost.recipe=$recipe" --tag "$name" --force-rm)
    if [ -n "$force" ]; then args+=(--no-cache); fi
    if [ "$suite" = - ]; then
        "$DOCKER_DIR/toxiproxy.sh" || return
        tar -cf "$archive" -C "$DOCKER_DIR/$folder" Dockerfile -C "$TOOLS_DIR" toxiproxy-server || return
    else
        args+=(--build-arg "BASE=$(base_name "$suite")")
        tar -cf "$archive" -C "$DOCKER_DIR/$folder" . -C "$DOCKER_DIR" entrypoint.sh || return
    fi
    docker build "${args[@]}" - <"$archive" || return
    rm -f "$archive"
}

# One line of work: everything that stands on one base, in order; a failure shows the end of its own log.
chain() { # chain SUITE
    local suite=$1 line name folder of
    [[ " ${IMAGES[*]} " == *"|$suite "* ]] || return 0
    if [ "$suite" != - ] && [ "$mode" = bootstrap ]; then build_base "$suite" || return; fi
    for line in "${IMAGES[@]}"; do
        IFS='|' read -r name folder of <<<"$line"
        if [ "$of" = "$suite" ]; then build_image "$name" "$folder" "$suite" || return; fi
    done
}

stale() { # the names of the images that are missing or outdated
    local line name folder suite
    for line in "${IMAGES[@]}"; do
        IFS='|' read -r name folder suite <<<"$line"
        current "$name" "$(image_recipe "$folder" "$suite")" || echo "$name"
    done
}

force=""
case "${1:-}" in
    --check)
        look
        [ -z "$(stale)" ]
        exit
        ;;
    --force) force=1 ;;
    '') ;;
    *) die "$EX_USAGE" "unknown argument \`$1\`; there are --check and --force" ;;
esac

engine_answers || die "$EX_MISSING" "no Docker engine answers; \`make setup\` sees to that"
look
if [ -n "$force" ]; then
    present=""
elif [ -z "$(stale)" ]; then
    exit 0
fi
if [ "$mode" = bootstrap ]; then
    have mmdebstrap || die "$EX_MISSING" "mmdebstrap is missing; install it, or set FENCEPOST_BASE=pull"
fi
mkdir -p "$SETUP_DIR"

pids=()
for suite in "${BASES[@]}" -; do
    log="$SETUP_DIR/images-${suite/-/toxiproxy}.log"
    : >"$log"
    # All of it to the log; what we say ourselves to the terminal too.
    (chain "$suite" 2>&1 | tee -a "$log" | { grep '^setup: ' >&2 || true; }) &
    pids+=("$!|$log")
done
failed=0
for entry in "${pids[@]}"; do
    IFS='|' read -r pid log <<<"$entry"
    if ! wait "$pid"; then
        say "an image failed; the end of $log:"
        tail -n 25 "$log" >&2
        failed=1
    fi
done
[ "$failed" = 0 ] || exit "$EX_MISSING"
# What was replaced just now: untagged, ours by its label, and kept as long as a container stands on it.
docker image prune --force --filter label=fencepost.recipe >/dev/null || true
say "images are ready"
