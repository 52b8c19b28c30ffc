#!/usr/bin/env bash
# Measures what a server takes as policies and requests grow: hack/scale.sh USHER [SECONDS]. Each row has the
# time from start to ready, the memory, and the CPU at rates of an open loop, as Markdown. CPU is that of the
# server and its workers, in ms a second.
set -euo pipefail
cd "$(dirname "$0")/.."
usher=${1:?usage: hack/scale.sh USHER [SECONDS]}
seconds=${2:-10}
rates=${RATES:-50 500 2000}
review=door/admission/testdata/reviews/v1-create-pods.json
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

# policies NUMBER RESOURCE: policies with a thousand expressions.
policies() {
    for n in $(seq "$1"); do
        cat <<END
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: scale-$n}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [$2], operations: [CREATE, UPDATE]}]}
  validations: [{expression: "object.metadata.?labels['scale-$((n % 1000))'].orValue('') != 'no'", message: not allowed}]
  bindings: [{name: all, validationActions: [Deny]}]
---
END
    done
}
# spent: the CPU time of the server and its workers, in ms.
spent() {
    cat "/proc/$server/stat" $(pgrep -P "$server" | sed 's#.*#/proc/&/stat#') 2>/dev/null |
        awk -v hz="$(getconf CLK_TCK)" '{sub(/.*\) /, ""); t += $12 + $13} END {printf "%d", t * 1000 / hz}'
}
memory() { awk '/^VmRSS/ {printf "%d MB", $2 / 1024}' "/proc/$server/status"; }

row() { # NAME: the policies are in $dir/policies
    local before now cells=
    before=$(date +%s%N)
    "$usher" serve --policies "$dir/policies" --facts "$dir/facts" --port 0 --metrics-bind-address 0 --cert-dir "$dir/certs" --log-level error > "$dir/out" 2> "$dir/problems" &
    server=$!
    until grep -q 'curl .*mutate' "$dir/out"; do
        kill -0 $server
        sleep 0.02
    done
    local url
    url=$(sed -n 's/^Serving \([^ ]*\) .*/\1/p' "$dir/out")
    until curl -sf --cacert "$dir/certs/ca.crt" -o /dev/null "$url/readyz"; do
        kill -0 $server
        sleep 0.02
    done
    local ready=$((($(date +%s%N) - before) / 1000000))
    bench() { "$usher" bench "$url/validate" --ca-file "$dir/certs/ca.crt" --file $review "$@"; }
    bench --rate 500 --duration 3s > /dev/null # Programs are compiled when they are first needed.
    for rate in $rates; do
        before=$(spent)
        bench --rate "$rate" --duration "${seconds}s" --connections 32 > "$dir/bench"
        now=$(spent)
        cells+=" $(((now - before) / seconds)) |"
    done
    if [ -s "$dir/problems" ]; then
        head -3 "$dir/problems" | cut -c -300 >&2
        exit 1
    fi
    echo "| $1 | $ready ms | $(memory) |$cells"
    kill $server
    wait $server || true
}

echo "| policies | ready after | memory |$(for rate in $rates; do printf ' ms/s at %d/s |' "$rate"; done)"
echo "|---|---|---|$(for rate in $rates; do printf -- '---|'; done)"
mkdir "$dir/policies" "$dir/facts"
echo '{apiVersion: v1, kind: Namespace, metadata: {name: store}}' > "$dir/facts/store.yaml"
row none
"$usher" library install pod-security-restricted > "$dir/policies/all.yaml" 2> /dev/null
row pod-security-restricted
for n in 10 100; do
    policies $n pods > "$dir/policies/all.yaml"
    row "$n for the object"
done
for n in 1000 10000; do
    policies $n services > "$dir/policies/all.yaml"
    row "$n for others"
done
