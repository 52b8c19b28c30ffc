#!/usr/bin/env bash
# Prints the packages of this module whose Go files differ from the branch that changes go to,
# committed or not: hack/changed.sh [BASE]. Without BASE it is origin/main, or else main.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-}
for name in origin/main main HEAD; do
    if [ -z "$base" ] && git rev-parse --verify --quiet "$name" > /dev/null; then
        base=$name
    fi
done
since=$(git merge-base "$base" HEAD)
folders=$({ git diff --name-only --diff-filter=d "$since"; git ls-files --others --exclude-standard; } |
    { grep '\.go$' || true; } | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
# Without testdata, and without the folders of other modules.
[ -z "$folders" ] || go list -e -f '{{if and .Module (not .Error)}}{{.Dir}}{{end}}' $folders | sed "s|^$PWD|.|"
