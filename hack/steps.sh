#!/usr/bin/env bash
# Makes the targets one after the other and prints how far it is: hack/steps.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
total=$#
[ "$total" -gt 0 ] || { echo "usage: hack/steps.sh TARGET..." >&2; exit 2; }
hack/plan.sh "$@"
number=0
for target in "$@"; do
    number=$((number + 1))
    step="step $number of $total, $target"
    echo "==> $step"
    start=$SECONDS
    if ! "${MAKE:-make}" --no-print-directory "$target"; then
        echo "==> $step: failed after $((SECONDS - start))s. To run it alone: make $target" >&2
        exit 1
    fi
    echo "==> $step: passed in $((SECONDS - start))s"
done
echo "==> all $total steps passed in ${SECONDS}s"
