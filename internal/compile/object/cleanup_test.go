package object_test

import (
	"encoding/json"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestCleanup: an object that violates a policy can be deleted although it has finalizers, or an owner that lets it go.
// Updates that do more are decided, and all of them by a policy that reads what is removed.
func TestCleanup(t *testing.T) {
	t.Parallel()
	const (
		bare      = "object.metadata.name == 'other'"
		finalizer = "'example.com/keep' in object.metadata.?finalizers.orValue([])"
		old       = "'example.com/keep' in oldObject.metadata.?finalizers.orValue([]) && object.metadata.name == 'other'"
		owner     = "has(object.metadata.ownerReferences)"
		whole     = "string(object) == ''"
		templates = "has(object.spec.nodeName)"
	)
	for _, row := range []struct {
		reason, expression, pods string
		object                   string
		denied                   bool
	}{
		{"a finalizer is removed", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["b"], "ownerReferences": [{"uid": "1"}], "resourceVersion": "2", "managedFields": [{"manager": "gc"}]}}`, false},
		{"all are removed", bare, "Off", `{"metadata": {"name": "web", "ownerReferences": [{"uid": "1"}]}}`, false},
		{"the owner is removed", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["a", "b"]}}`, false},
		{"all of both are removed", bare, "Off", `{"metadata": {"name": "web"}}`, false},
		{"nothing changes", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["a", "b"], "ownerReferences": [{"uid": "1"}]}}`, true},
		{"the order changes", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["b", "a"], "ownerReferences": [{"uid": "1"}]}}`, true},
		{"one is added, too", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["c"], "ownerReferences": [{"uid": "1"}]}}`, true},
		{"one is there twice, and the owner is removed", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["a", "a", "a"]}}`, true},
		{"the owner changes, too", bare, "Off", `{"metadata": {"name": "web", "ownerReferences": [{"uid": "2"}]}}`, true},
		{"a label is added, too", bare, "Off", `{"metadata": {"name": "web", "labels": {"a": "b"}}}`, true},
		{"something else changes, too", bare, "Off", `{"metadata": {"name": "web"}, "spec": {"replicas": 2}}`, true},
		{"the policy reads finalizers", finalizer, "Off", `{"metadata": {"name": "web"}}`, true},
		{"the policy reads old finalizers", old, "Off", `{"metadata": {"name": "web"}}`, true},
		{"the policy reads owners", owner, "Off", `{"metadata": {"name": "web"}}`, true},
		{"the policy reads everything", whole, "Off", `{"metadata": {"name": "web"}}`, true},
		{"pods of the workload", templates, "Deny", `{"metadata": {"name": "web"}}`, false},
		{"pods of a workload that changes", templates, "Deny", `{"metadata": {"name": "web"}, "spec": {"template": {"spec": {"hostname": "x"}}}}`, true},
		{"there are too many to compare", bare, "Off", `{"metadata": {"name": "web", "finalizers": ["many"]}}`, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			resource := `{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}`
			if row.pods != "Off" {
				resource = `{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}`
			}
			rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
				matchConstraints: {resourceRules: [`+resource+`]}, podTemplates: "`+row.pods+`",
				validations: [{expression: "`+row.expression+`", message: "no"}]}}`)
			more := ""
			if strings.Contains(row.object, "many") {
				more = strings.Repeat(`, "many"`, 100)
			}
			before := `{"metadata": {"name": "web", "finalizers": ["a", "b"` + more + `], "ownerReferences": [{"uid": "1"}], "resourceVersion": "1"}}`
			q := policytest.Request{Operation: usher.Update, Namespace: "shop", Object: deployment(t, row.object), OldObject: deployment(t, before)}
			r, err := q.For(usher.Validate)
			if err != nil {
				t.Fatal(err)
			}
			d, err := engine.New(index.New(rules), nil, engine.Options{}).Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != row.denied {
				t.Errorf("%s %s, findings %+v", d.Verdict, d.Message, d.Findings)
			}
			if !row.denied && d.Findings[0].Outcome != usher.Skipped {
				t.Errorf("the finding says %+v", d.Findings[0])
			}
		})
	}
}

// deployment returns a Deployment with fields.
func deployment(t *testing.T, fields string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal([]byte(fields), &object); err != nil {
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = "apps/v1", "Deployment"
	return object
}
