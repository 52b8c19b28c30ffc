package live_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// TestPoliciesWithoutBindingAreNotInForce has two admission policies and two bindings, which have one in common.
func TestPoliciesWithoutBindingAreNotInForce(t *testing.T) {
	t.Parallel()
	const policies = `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: bound}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "false"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: unbound}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "false"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: binds}, spec: {policyName: bound, validationActions: [Deny]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: dangling}, spec: {policyName: none, validationActions: [Deny]}}
`
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policies.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	decider := live.New(live.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = decider.Run(ctx, dir.New(folder)) }()
	if err := decider.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	enforced := map[string]bool{}
	for _, p := range decider.Policies() {
		enforced[p.Ref.Name] = p.Enforced
	}
	if diff := cmp.Diff(map[string]bool{"bound": true, "unbound": false, "binds": true, "dangling": false}, enforced); diff != "" {
		t.Errorf("in force (-want +got):\n%s", diff)
	}
}
