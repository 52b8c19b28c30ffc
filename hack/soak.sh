#!/usr/bin/env bash
# Serves under load while policies are edited, and fails if a request has no answer or memory
# grows: hack/soak.sh USHER DURATION. It finds out first what the server can do at most, and
# then asks for 80 % of that. CSV lines of memory go to SOAKLOG, if that is set.
set -euo pipefail
cd "$(dirname "$0")/.."
usher=${1:?usage: hack/soak.sh USHER DURATION}
duration=${2:?usage: hack/soak.sh USHER DURATION}
case $duration in
*h) seconds=$((${duration%h} * 3600)) ;;
*m) seconds=$((${duration%m} * 60)) ;;
*) seconds=${duration%s} ;;
esac
dir=$(mktemp -d)
log=${SOAKLOG:-$dir/memory.csv}
mkdir "$dir/policies"
trap 'kill $server $load 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
load=

policy() { # NAME KIND RULES
    cat <<END
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: $2
metadata: {name: $1}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  $3
END
}
edit() { # the N-th version of the policies that change
    local n=$1 i=$((RANDOM % 20))
    policy "label-$i" ClusterOverridePolicy "overrideRules: [{overriders: {template: {type: labels, operation: add, path: soak-$i, value: {string: \"$n\"}}}}]" > "$dir/next"
    mv "$dir/next" "$dir/policies/label-$i.yaml"
    policy "cue-$((i % 3))" ClusterOverridePolicy "overrideRules: [{overriders: {cue: 'object: _ @tag(object)

      patches: [if object.metadata.labels[\"cue-$i\"] == _|_ {{op: \"add\", path: \"/metadata/labels/cue-$i\", value: \"$n\"}}]'}}]" > "$dir/next"
    mv "$dir/next" "$dir/policies/cue-$((i % 3)).yaml"
    policy "check-$((i % 5))" ClusterValidatePolicy "validateRules: [{template: {type: condition, condition: {cond: Equal, dataRef: {from: current, path: /spec/nodeName}, value: {string: n$n}, message: wrong node}}}]" > "$dir/next"
    mv "$dir/next" "$dir/policies/check-$((i % 5)).yaml"
}
memory() { awk '/^RssAnon/ {print $2}' "/proc/$server/status"; }

for n in $(seq 60); do edit "$n"; done
"$usher" serve --policies "$dir/policies" --port 0 --metrics-bind-address 0 --cert-dir "$dir/certs" --log-level warn > "$dir/out" &
server=$!
until grep -q 'curl .*mutate' "$dir/out"; do
    kill -0 $server
    sleep 0.1
done
url=$(sed -n 's/^Serving \([^ ]*\) .*/\1/p' "$dir/out")
review=door/admission/testdata/reviews/v1-create-pods.json
bench() { "$usher" bench "$url$1" --ca-file "$dir/certs/ca.crt" --file $review "${@:2}"; }
until bench /validate -d 100ms > /dev/null; do
    kill -0 $server
done
# What it can do while policies change: the least of five.
least=
for n in $(seq 5); do
    edit "0$n"
    rate=$(bench /mutate -d 3s -c 16 | awk 'NR == 1 {print int($6)}')
    [ -z "$least" ] || [ "$rate" -lt "$least" ] && least=$rate
done
rate=$((least * 8 / 10))
echo "up to $least requests a second; $rate for $duration, on /mutate and /validate in turn"

{
    bench /mutate -d "${seconds}s" -c 64 --rate $((rate / 2)) && bench_ok=1 || bench_ok=0
    echo "$bench_ok" > "$dir/mutate"
} > "$dir/mutate.out" 2>&1 &
load=$!
{
    bench /validate -d "${seconds}s" -c 64 --rate $((rate / 2)) && bench_ok=1 || bench_ok=0
    echo "$bench_ok" > "$dir/validate"
} > "$dir/validate.out" 2>&1 &
load="$load $!"
start=$SECONDS
n=100
echo "seconds,anonymous kB,edits" > "$log"
while [ $((SECONDS - start)) -lt "$seconds" ]; do
    edit $((n += 1))
    echo "$((SECONDS - start)),$(memory),$((n - 100))" >> "$log"
    sleep 1
done
wait $load || true
cat "$dir/mutate.out" "$dir/validate.out"
[ "$(cat "$dir/mutate" "$dir/validate" | tr -d '\n')" = 11 ] || { echo "requests had no answer"; exit 1; }
# Memory saws: what counts is the highest of the second and of the last fifth.
awk -F, 'NR > 1 {t[NR] = $1; m[NR] = $2; n = $3} END {
    last = t[NR]
    for (i = 2; i <= NR; i++) {
        if (t[i] > last / 5 && t[i] <= 2 * last / 5 && m[i] > early) early = m[i]
        if (t[i] > 4 * last / 5 && m[i] > late) late = m[i]
    }
    printf "%d edits; at most %d kB of memory in the second fifth, %d kB in the last\n", n, early, late
    exit late > early * 1.1 + 4096
}' "$log" || { echo "memory grows"; exit 1; }
