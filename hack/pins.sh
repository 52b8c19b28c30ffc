#!/usr/bin/env bash
# Writes the replace lines of the sandbox's go.mod: what Usher needs in newer versions than
# the release of Kubernetes there stays as it was released.
set -euo pipefail
cd "$(dirname "$0")/../sandbox"
export GOWORK=off
# A pin replaces a module by another version of itself.
pins=$(awk '$1 == "replace" && $2 == $4 {print $2} $2 == "=>" && $1 == $3 {print $1}' go.mod)
for pin in $pins; do
    go mod edit -dropreplace="$pin"
done
go mod tidy
version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' go.mod)
go mod download "k8s.io/kubernetes@$version"
released=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$version.mod
awk 'NR == FNR { if ($2 ~ /^v[0-9]/) released[$1] = $2; next }
     /^\t/ && ($1 in released) && $1 !~ /^k8s\.io\// && released[$1] != $2 { print $1 "=" $1 "@" released[$1] }' "$released" go.mod |
    while read -r pin; do
        go mod edit -replace="$pin"
    done
go mod tidy
