package webhookconfig_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// existingText is a policy for pods, also for those that exist.
const existingText = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: existing}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false", message: bad}]
  existingObjects: {apiVersion: v1, kind: Pod}
  bindings: [{name: all, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {a: b}}}}]
`

// TestExistingObjects: of the entries that get an update of a namespace one inspects what exists in it,
// and it is refused without a response only if another policy is for it.
func TestExistingObjects(t *testing.T) {
	t.Parallel()
	update := usher.Request{
		Phase: usher.Validate, Operation: usher.Update, Resource: resourceOf("v1/namespaces"), Kind: kindOf("v1/Namespace"),
		Namespace: "shop", Name: "shop", User: usher.User{Name: "jane"},
		Object: usher.TreeObject(map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]any{"a": "b"}}}),
	}
	update.OldObject = usher.TreeObject(map[string]any{"metadata": map[string]any{"name": "shop"}})
	for _, row := range []struct {
		reason, others string
		want           []string
	}{
		{"no other policy", "", []string{"validate-existing Ignore"}},
		{"pods", policyText("ClusterValidatePolicy", "", "v1", "Pod", ""), []string{"validate-existing Ignore"}},
		{"namespaces, by kind", policyText("ClusterValidatePolicy", "", "v1", "Namespace", ""), []string{"validate Fail"}},
		{"namespaces that are created", policyText("ClusterValidatePolicy", "", "v1", "Namespace", "CREATE"), []string{"validate-existing Ignore"}},
		{"changes of namespaces", policyText("ClusterOverridePolicy", "", "v1", "Namespace", ""), []string{"validate-existing Ignore"}},
		{"everything", policyText("ClusterValidatePolicy", "", "", "", ""), []string{"validate Fail"}},
		{"namespaces, by resource", resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, namespaces]`), []string{"validate Fail"}},
		{"a namespace by its name", resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces], resourceNames: [shop]`), []string{"validate Fail"}},
		{"all resources", resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]`), []string{"validate Fail"}},
		{"all subresources, too", resourcesText(`apiGroups: [""], apiVersions: ["*"], operations: [UPDATE], resources: ["*/*"]`), []string{"validate Fail"}},
		{"the status of namespaces", resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces/status]`), []string{"validate-existing Ignore"}},
		{"what is in no namespace", resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*"], scope: Cluster`), []string{"validate Fail"}},
		{"what is in a namespace", resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*"], scope: Namespaced`), []string{"validate-existing Ignore"}},
		{"another group", resourcesText(`apiGroups: [apps], apiVersions: ["*"], operations: ["*"], resources: ["*"]`), []string{"validate-existing Ignore"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			l := following(t, existingText+"---\n"+row.others)
			e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Service: "usher", FailurePolicy: admissionv1.Fail, Log: silent})
			mutating, validating, err := e.Objects(rule.Cover(l.Rules()), nil)
			if err != nil {
				t.Fatal(err)
			}
			var sent []string
			for i, hook := range accessors(mutating, validating)[usher.Validate] {
				if !sends(t, hook, &update) {
					continue
				}
				at, _ := webhookconfig.EntryOf(hook.GetName())
				sent = append(sent, fmt.Sprintf("%s %s", at, *validating.Webhooks[i].FailurePolicy))
				if !slices.ContainsFunc(l.RulesAt(at.String()), func(r rule.Rule) bool { return r.Inspects }) {
					t.Errorf("%s does not inspect what exists", at)
				}
			}
			if diff := cmp.Diff(row.want, sent); diff != "" {
				t.Errorf("entries that get the update (-want +got):\n%s", diff)
			}
		})
	}
}
