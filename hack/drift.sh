#!/usr/bin/env bash
# Generates everything anew into a copy of the tree and compares: nothing in the work
# tree changes.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy" 2>/dev/null || true
(cd "$copy" && make --no-print-directory generate >/dev/null && go mod tidy && cd bench && go mod tidy)
status=0
for path in api deploy go.mod go.sum bench/go.mod bench/go.sum; do
    diff -r -u "$path" "$copy/$path" || status=1
done
hack/page.sh --check || status=1
if [ $status -ne 0 ]; then
    echo "generated files are not up to date: run 'make generate', and 'go mod tidy' in the folder of each go.mod that is named" >&2
fi
exit $status
