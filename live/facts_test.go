package live_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// TestNoFacts: of a policy that cannot be decided by without facts there is a problem, and of others there is none.
func TestNoFacts(t *testing.T) {
	t.Parallel()
	const everything = `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`
	const rule = `validations: [{expression: "object.metadata.name != 'x'"}]`
	for _, row := range []struct{ reason, spec, says string }{
		{"nothing", "matchConstraints: {" + everything + "}, " + rule, ""},
		{"params in place", "matchConstraints: {" + everything + "}, bindings: [{params: {max: 1}}], validations: [{expression: params.max == 1}]", ""},
		{"an empty selector", "matchConstraints: {namespaceSelector: {}, " + everything + "}, " + rule, ""},
		{"data", "matchConstraints: {" + everything + "}, data: [{name: teams, object: {apiVersion: v1, kind: ConfigMap, namespace: a, name: b}}], validations: [{expression: has(data.teams.data)}]", "data.teams"},
		{"HTTP", "matchConstraints: {" + everything + "}, data: [{name: teams, http: {url: 'https://cmdb.example'}}], validations: [{expression: has(data.teams)}]", "data.teams"},
		{"the namespace", "matchConstraints: {" + everything + "}, validations: [{expression: namespaceObject.metadata.name != 'x'}]", "namespaceObject"},
		{"labels of the namespace", "matchConstraints: {namespaceSelector: {matchLabels: {a: b}}, " + everything + "}, " + rule, "the labels of namespaces"},
		{"those of a binding", "matchConstraints: {" + everything + "}, bindings: [{matchResources: {namespaceSelector: {matchLabels: {a: b}}}}], " + rule, "the labels of namespaces"},
		{"rights", "matchConstraints: {" + everything + "}, validations: [{expression: \"authorizer.group('').resource('pods').check('get').allowed()\"}]", "authorizer"},
		{"params", "paramKind: {apiVersion: v1, kind: ConfigMap}, bindings: [{paramRef: {namespace: a, name: b, parameterNotFoundAction: Deny}}], matchConstraints: {" + everything + "}, " + rule, "params"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			policy := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {` + row.spec + `}}`
			if err := os.WriteFile(filepath.Join(folder, "p.yaml"), []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			decider, with := live.New(live.Options{}), live.New(live.Options{Facts: object.FromTrees(nil)})
			for _, l := range []*live.Live{decider, with} {
				go func() { _ = l.Run(ctx, dir.New(folder)) }()
				if err := l.WaitLoaded(ctx); err != nil {
					t.Fatal(err)
				}
			}
			d, err := decider.Decide(ctx, &usher.Request{
				Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "x",
				Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Object: usher.RawObject([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"y","namespace":"shop"}}`)),
			})
			if fails := err != nil || d.Verdict == usher.Deny; fails != (row.says != "") {
				t.Errorf("decision %v, %v", d, err)
			}
			var found []string
			for _, problem := range decider.Problems() {
				if strings.Contains(problem.What, "has no facts for") {
					found = append(found, problem.Severity+": "+problem.What)
				}
			}
			if text := strings.Join(found, "\n"); row.says == "" && text != "" || row.says != "" && !strings.HasPrefix(text, "mistake: it reads "+row.says+", which") {
				t.Errorf("problems %q", decider.Problems())
			}
			if err := decider.WaitTried(ctx); err != nil {
				t.Fatal(err)
			}
			var known []live.Problem
			for _, policy := range decider.Policies() {
				known = append(known, policy.Problems...)
			}
			if diff := cmp.Diff(decider.Problems(), known); diff != "" {
				t.Errorf("problems (-of all +of policies):\n%s", diff)
			}
			for _, problem := range with.Problems() {
				if strings.Contains(problem.What, "has no facts for") {
					t.Errorf("with facts: %s", problem)
				}
			}
		})
	}
}
