#!/usr/bin/env bash
# Checks deploy/*.yaml against the schemas of Kubernetes (strict: no field that it does not know), which a package from
# PyPI brings along. Exit: 0 all are right, 1 one is not, 69 the package cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=1.37.0
venv=target/kubernetes-validate-$VERSION
if [ ! -x "$venv/bin/kubernetes-validate" ]; then
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "kubernetes-validate==$VERSION"; } >&2; then
        rm -rf "$venv"
        echo "manifest: kubernetes-validate cannot be installed; it needs python3 with venv, and PyPI" >&2
        exit 69
    fi
fi
"$venv/bin/kubernetes-validate" --strict deploy/*.yaml
