package prove

import (
	"fmt"
	"strings"

	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/rule"
)

// misnamed is the outcome of a test that names something that is not among those that are known.
func misnamed(name string, known []string, format string, args ...any) proof.Row {
	row := proof.Row{Outcome: proof.Misnamed, Why: fmt.Sprintf(format, args...)}
	if suggestion := rule.Suggestion(name, known); suggestion != "" {
		row.Why += "; " + suggestion
	}
	return row
}

// find returns the object of the test that a result names, or nil and the names of those of its kind.
func (p *prover) find(r *result, name string) (object map[string]any, known []string) {
	namespace := r.Namespace
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	for _, o := range p.resources {
		kind, _ := o["kind"].(string)
		own := text(o, "namespace")
		if r.Kind == "" || kind == r.Kind {
			known = append(known, text(o, "name"))
		}
		if text(o, "name") == name && (r.Kind == "" || kind == r.Kind) && (namespace == "" || own == namespace || own == "" && namespace == "default") {
			return o, nil
		}
	}
	return nil, known
}

// rulesOf returns the names of the rules of a policy.
func rulesOf(policy map[string]any) []string {
	spec, _ := policy["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	var names []string
	for _, each := range rules {
		fields, _ := each.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	return names
}
