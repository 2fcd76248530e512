#!/usr/bin/env bash
# Builds target/tools/toxiproxy-server from the Go module, static, once a version.
#
# The local backend runs this binary; docker/toxiproxy/Dockerfile copies it into an image. The Go module is the one
# source that both share. FENCEPOST_TOXIPROXY names another binary for the local backend.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=2.12.0
MODULE=github.com/Shopify/toxiproxy/v2
binary="$TOOLS_DIR/toxiproxy-server"

if [ -x "$binary" ] && [[ "$("$binary" -version 2>/dev/null)" == *" $VERSION" ]]; then
    exit 0
fi
have go || die "$EX_MISSING" "go is missing; it builds Toxiproxy (Go 1.23 or newer)"

mkdir -p "$TOOLS_DIR"
scratch=$(mktemp -d "$TOOLS_DIR/.build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
# The version is stamped as the project's own releases do it: the server reports it, and histories record that.
CGO_ENABLED=0 GOBIN="$scratch" go install -trimpath -ldflags "-s -w -X $MODULE.Version=$VERSION" \
    "$MODULE/cmd/server@v$VERSION"
# A rename, so that a build next door never sees half a binary.
mv -f "$scratch/server" "$binary"
