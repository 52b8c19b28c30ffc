package judge_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/engine"
)

// objectPolicy is a ClusterObjectPolicy with more fields of its spec.
func objectPolicy(name, operations, resources, more string) string {
	return fmt.Sprintf(`---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: [v1], operations: [%s], resources: [%s]}]}
%s
`, name, operations, resources, strings.Trim(more, "\n"))
}

// admissionPolicy is a ValidatingAdmissionPolicy with a binding.
func admissionPolicy(name, operations, resources, expression string) string {
	return fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s, annotations: {policies.kyverno.io/category: Samples, policies.kyverno.io/severity: low}}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: [v1], operations: [%[2]s], resources: [%[3]s]}]}
  validations: [{expression: '%[4]s', message: not so}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, operations, resources, expression)
}

const (
	hostNetwork = "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"
	onHost      = "{metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {hostNetwork: true, containers: [{name: a, image: a:latest}]}}"
	plainPod    = "{metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, image: a:latest}]}}"
)

func kind(group, resource, name string, namespaced bool) result.Kind {
	return result.Kind{Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Kind: name, Namespaced: namespaced}
}

// now is the time of all tests.
func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// cluster are the other objects of the cluster.
func cluster() fact.Resolver {
	return object.FromTrees([]map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"tier": "prod"}}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "lab", "labels": map[string]any{"tier": "test"}}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "limits", "namespace": "shop"}, "data": map[string]any{"most": "2"}},
	})
}

// lines are judgements, in one line for each policy and each result.
func lines(said []judge.Judgement) string {
	var b strings.Builder
	for _, s := range said {
		_, _ = fmt.Fprintf(&b, "%s: %d pass, %d skip", s.Policy.Name, s.Pass, s.Skip)
		for _, ref := range s.Facts {
			_, _ = fmt.Fprintf(&b, ", reads %s", ref)
		}
		b.WriteByte('\n')
		for _, r := range s.Results {
			_, _ = fmt.Fprintf(&b, "  %s %s", r.Status, strings.Join(strings.Fields(r.Rule+" "+r.Validation+" "+r.Field), " "))
			if len(r.Actions) > 0 {
				_, _ = fmt.Fprintf(&b, " %v", r.Actions)
			}
			if r.Category != "" || r.Severity != "" {
				_, _ = fmt.Fprintf(&b, " (%s/%s)", r.Category, r.Severity)
			}
			_, _ = fmt.Fprintf(&b, ": %s", r.Message)
			if r.Exemption != nil {
				_, _ = fmt.Fprintf(&b, " [%s, without it %s]", r.Exemption.PolicyRef, r.WithoutExemption)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object, err := usher.RawObject(raw).Tree()
	if err != nil {
		t.Fatal(err)
	}
	return object
}

var update = flag.Bool("update", false, "write testdata")

// TestJudge compares judgements with what testdata has.
func TestJudge(t *testing.T) {
	t.Parallel()
	const file = "testdata/judgements.txt"
	var all strings.Builder
	for _, test := range judgements() {
		_, _ = fmt.Fprintf(&all, "## %s\n%s\n", test.reason, test.said(t))
	}
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// said is what the policies say about the object, and which rules do not judge it.
func (test *judgement) said(t *testing.T) string {
	t.Helper()
	k := test.kind
	if k.Kind == "" {
		k = pods
	}
	j := judge.New(rules(t, test.policies), judge.Options{Facts: cluster(), Engine: engine.Options{Now: now}})
	plan := j.Plan(k)
	var unjudged []judge.Unjudged
	text := ""
	if plan == nil {
		text, unjudged = "not read\n", j.Unjudged()
	} else {
		whole := usher.TreeObject(tree(t, test.object))
		compareParts(t, plan, whole)
		object, err := whole.Tree()
		if err != nil {
			t.Fatal(err)
		}
		text, unjudged = lines(say(t, plan, object, nil)), plan.Unjudged()
	}
	for _, u := range unjudged {
		text += u.Policy.Name + " " + u.Rule + " is not judged: " + u.Reason + "\n"
	}
	return text
}

// TestEnd has an audit end while a policy of a namespace judges: those of the cluster have judged.
func TestEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	facts := fact.ResolverFunc(func(ctx context.Context, _ fact.Ref) (any, error) {
		cancel()
		return nil, ctx.Err()
	})
	const never = "  validations: [{expression: 'false', message: never}]\n"
	slow := strings.NewReplacer("ClusterObjectPolicy", "ObjectPolicy", "{name: a}", "{name: a, namespace: shop}").Replace(objectPolicy("a", "CREATE", "pods", `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  bindings: [{paramRef: {name: limits, parameterNotFoundAction: Deny}}]
`+never))
	plan := judge.New(rules(t, slow+objectPolicy("b", "CREATE", "pods", never)+objectPolicy("c", "CREATE", "pods", "  matchConditions: [{name: not, expression: 'false'}]\n"+never)+mutation("d")),
		judge.Options{Facts: facts}).Plan(pods)
	said, err := plan.Judge(ctx, tree(t, onHost), nil)
	want := `d: 0 pass, 0 skip
  warn binding d metadata.labels.team: would change metadata.labels.team
b: 0 pass, 0 skip
  fail spec.validations[0] [Deny] (/medium): never
c: 0 pass, 0 skip
`
	if diff := cmp.Diff(want, lines(said)); diff != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; -want +got:\n%s", err, diff)
	}
	if again, err := plan.Judge(ctx, tree(t, onHost), nil); err == nil || len(again) > 0 {
		t.Errorf("after the end: %v, %v", again, err)
	}
}
