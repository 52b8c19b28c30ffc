package guard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/rule"
)

// TestExistingObjects: who writes a policy of the cluster is warned about objects that exist, once what it
// decides changes and nothing is wrong with it.
func TestExistingObjects(t *testing.T) {
	t.Parallel()
	const (
		clusterPolicy = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p, labels: {a: %s}}, spec: {%s, matchConstraints: {
			resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}}}`
		ofNamespace = `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop, labels: {a: %s}}, spec: {%s, matchConstraints: {
			resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}}}`
		valid, other, invalid = `validations: [{expression: "false"}]`, `validations: [{expression: "true"}]`, `validations: [{expression: "object."}]`
		off                   = `suspend: true, ` + valid
	)
	const said = "spec.validations: 1 of 2 existing pods would be refused (see all)"
	deny := func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("by others"), nil }
	for _, row := range []struct {
		reason, kind string
		old, written string
		next         usher.DeciderFunc
		told         bool
	}{
		{"it is created", clusterPolicy, "", valid, allow, true},
		{"its expressions change", clusterPolicy, other, valid, allow, true},
		{"it is put into force again", clusterPolicy, off, valid, allow, true},
		{"only its labels change", clusterPolicy, valid, valid, allow, false},
		{"it is suspended", clusterPolicy, valid, off, allow, false},
		{"it does not compile", clusterPolicy, "", invalid, allow, false},
		{"another policy refuses it", clusterPolicy, "", valid, deny, false},
		{"it is one of a namespace", ofNamespace, "", valid, allow, false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			calls := 0
			g := guard.Wrap(row.next, guard.Options{Existing: func(_ context.Context, c compile.Compiled) []rule.Problem {
				calls++
				return []rule.Problem{{Policy: c.Ref, Severity: rule.Warning, Field: "spec.validations", What: "1 of 2 existing pods would be refused", Do: "see all"}}
			}})
			r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(object(t, fmt.Sprintf(row.kind, "new", row.written)))}
			if row.old != "" {
				r.Operation, r.OldObject = usher.Update, usher.TreeObject(object(t, fmt.Sprintf(row.kind, "old", row.old)))
			}
			d, err := g.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if told := slices.Contains(d.Warnings, said); told != row.told || (calls > 0) != row.told {
				t.Errorf("warnings %q after %d calls, want the warning: %t", d.Warnings, calls, row.told)
			}
			r.Phase = usher.Mutate
			calls = 0
			if _, err := g.Decide(t.Context(), r); err != nil || calls > 0 {
				t.Errorf("in the mutating phase: %v, %d calls", err, calls)
			}
		})
	}
}
