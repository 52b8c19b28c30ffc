#!/usr/bin/env bash
# Starts the webhook on the example policies, asks it over HTTPS about each sample object,
# prints the decisions, and stops it.
set -euo pipefail
cd "$(dirname "$0")/.."
usher=${1:?usage: hack/run.sh USHER}
dir=$(mktemp -d)
policies=examples/object-policies
"$usher" serve --policies $policies/policies --facts $policies/namespaces.yaml --port "${PORT:-8443}" \
    --cert-dir "$dir" --metrics-bind-address 0 --log-level warn &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$dir"' EXIT
"$usher" decide --server "https://127.0.0.1:${PORT:-8443}" --ca-file "$dir/ca.crt" -f examples/objects || [ $? -eq 1 ]
cat <<END

These are the answers of a real webhook, over HTTPS. To keep it running:
  bin/usher serve --policies $policies/policies --facts $policies/namespaces.yaml
To see why, with the rules that matched and those that nearly did:
  bin/usher decide -p $policies/policies --facts $policies/namespaces.yaml -f examples/objects/pod.yaml
END
