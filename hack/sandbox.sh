#!/usr/bin/env bash
# Starts a Kubernetes control plane with Usher and the example policies in it, and says
# what to type in another terminal.
set -euo pipefail
cd "$(dirname "$0")/.."
sandbox=${1:?usage: hack/sandbox.sh SANDBOX USHER}
usher=${2:?usage: hack/sandbox.sh SANDBOX USHER}
cat <<END
Starting Kubernetes, then Usher with examples/object-policies/policies. When both are ready, in another
terminal, with the KUBECONFIG that is printed below:
  kubectl apply -f examples/object-policies/namespaces.yaml  # shop, where the policies deny, and lab, where they warn
  kubectl apply -f examples/objects/pod-gpu.yaml             # allowed, warned, and changed: kubectl -n lab get pod train -o yaml
  kubectl apply -f examples/objects/deployment-frontend.yaml # denied, with the reason
The example policies are files. Yours go into the cluster, and have a status:
  kubectl apply -f try/policies/owner.yaml                   # the one of the README, or another
  kubectl get usher -A
Is Usher healthy? With the URL that it serves, which is printed below, too:
  curl -k 'URL/readyz?verbose'
What was decided, as it happens, and what policies say of objects that exist:
  bin/usher watch
  bin/usher audit

END
exec "$sandbox" up --with-usher --usher-bin "$usher" --crds deploy/crds --policies examples/object-policies/policies
