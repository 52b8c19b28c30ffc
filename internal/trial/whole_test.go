package trial_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/compile"
)

// TestConditionsOnAllNamespaces: nothing is said of a condition that a request for all namespaces, or for all
// names, does not evade.
func TestConditionsOnAllNamespaces(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, effect, verbs, resource, conditions string }{
		{"the empty text is excluded, too", "Allow", "list", "pods", `unless: [{cel: "request.namespace in ['', 'vault']"}]`},
		{"by another condition", "Allow", "list", "pods", `unless: [{cel: "request.namespace == 'vault'"}, {cel: "request.namespace == ''"}]`},
		{"as a wildcard", "Allow", "list", "pods", `unless: [{cel: "request.namespace == 'vault'"}, {cel: request.isWildcard}]`},
		{"for one namespace", "Allow", "list", "pods", `when: [{cel: "request.namespace == 'vault'"}]`},
		{"the rule has namespaces", "Allow", "list", `pods], namespaces: ["team-*"`, `unless: [{cel: "request.namespace == 'team-x'"}]`},
		{"the rule has names", "Allow", "list", `pods], names: ["a*"`, `unless: [{cel: "request.name == 'ab'"}]`},
		{"always with a namespace", "Allow", "get", "pods", `unless: [{cel: "request.namespace == 'vault'"}]`},
		{"never with a namespace", "Allow", "list", "nodes", `unless: [{cel: "request.namespace == 'vault'"}]`},
		{"denied for all but one", "Deny", "list", "configmaps", `unless: [{cel: "request.namespace == 'sandbox'"}]`},
		{"denied for all of them, too", "Deny", "list", "configmaps", `when: [{cel: "request.namespace in ['', 'vault']"}]`},
		{"lists may have what is denied", "Deny", "get", "configmaps", `when: [{cel: "request.name == 'root'"}]`},
	} {
		p, err := policy(t, "access/p.yaml", []byte(`
effect: `+row.effect+`
subjects: [{groups: [devs]}]
rules: [{verbs: [`+row.verbs+`], apiGroups: [""], resources: [`+row.resource+`]}]
message: stop
`+row.conditions))
		if err != nil {
			t.Fatal(err)
		}
		c := compile.Policy(p)
		if len(c.Access) == 0 {
			t.Fatalf("%s: %v", row.reason, c.Problems)
		}
		for _, problem := range tried(t).Problems(t.Context(), c) {
			t.Errorf("%s: %s", row.reason, problem)
		}
	}
}
