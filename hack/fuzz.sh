#!/usr/bin/env bash
# Runs every fuzz target for the given time, one after the other. By default Go spends up to a minute on
# shortening each input that covers more, and hardly looks for others.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: hack/fuzz.sh TIME}
grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do
    for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | sed 's/^func //'); do
        echo "== $package $target $time"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x "$package"
    done
done
