#!/usr/bin/env bash
# Prints the packages that go would compile: hack/stale.sh PACKAGE... [FLAG...], with the flags of go list.
set -euo pipefail
packages=()
flags=()
for argument in "$@"; do
    case $argument in
    -*) flags+=("$argument") ;;
    *) packages+=("$argument") ;;
    esac
done
{ "${GO:-go}" list -deps -e -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${flags[@]}" "${packages[@]}" 2>/dev/null || true; } | sed "/^$/d"
