#!/usr/bin/env bash
# Prints those of the packages in which goroutines meet: their files, tests included, start some, or have channels or
# locks. Elsewhere the race detector finds nothing: hack/concurrent.sh PACKAGE...
set -euo pipefail
cd "$(dirname "$0")/.."
"${GO:-go}" list -f '{{.Dir}}' "$@" | while read -r dir; do
    if grep -qE '"(sync|sync/atomic|golang\.org/x/sync/[a-z]+)"|\bchan\b|^[[:space:]]*go [a-z]' "$dir"/*.go; then
        echo ".${dir#"$PWD"}"
    fi
done
