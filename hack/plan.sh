#!/usr/bin/env bash
# Prints what the targets have to compile, each what those before have not: hack/plan.sh TARGET...
# What is compiled is cached; in a fresh clone it takes most of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
stale=$PWD/hack/stale.sh

# compiles prints the packages that a target needs and that are not compiled. Targets that are not here
# have what others have.
compiles() {
    case $1 in
    lint)
        "$stale" -modfile=tools/lint/go.mod github.com/golangci/golangci-lint/v2/cmd/golangci-lint
        # It reads the types of what it lints from what is compiled.
        for module in ${MODULES:-.}; do (cd "$module" && "$stale" -test ./...); done
        ;;
    unit) "$stale" -test ./... && (cd bench && "$stale" -test ./...) && (cd tools/supply && "$stale" -test ./...) && (cd tools/site && "$stale" -test ./...) && (cd cmd/usher-verify && "$stale" -test ./...) ;;
    race) CGO_ENABLED=1 "$stale" -test -race . ./plugin ./door/... ./internal/engine/... ./internal/serve/... | sed 's/$/ with the race detector/' ;;
    alerts) (cd tools/prometheus && "$stale" -test ./...) ;;
    e2e) (cd sandbox && "$stale" -test ./...) ;;
    conformance) (cd conformance && "$stale" -test ./...) ;;
    esac
}

seen=
total=0
lines=
for target in "$@"; do
    names=$(comm -23 <(compiles "$target" | sort -u) <(echo "$seen"))
    count=$(echo "$names" | grep -c . || true)
    [ "$count" -gt 20 ] || continue
    seen=$(printf '%s\n%s\n' "$seen" "$names" | sort -u)
    total=$((total + count))
    lines+=$(printf '    %-12s %5d packages' "$target" "$count")$'\n'
done
[ "$total" -gt 0 ] || exit 0
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
printf '==> to compile, and then cached, in about %d minutes on %d cores:\n%s\n' $((total / (4 * cores) / 60 + 1)) "$cores" "$lines"
