package trial

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// nameProblems returns what is wrong with names of params, which the bindings have in place, and of namespaces, in a
// policy that is for one.
func (t *Trial) nameProblems(c *compile.Compiled, p compile.Typed) []rule.Problem {
	placed := placedParams(c)
	var problems []rule.Problem
	for _, n := range t.types.Namings(p.Expressions()) {
		if names, missing := n.Missing(placed); missing {
			severity, do := rule.Warning, "the params in place are "+strings.Join(names, ", ")
			if near := rule.Nearest(n.Params, names); near != "" {
				severity, do = rule.Mistake, "did you mean params."+near+"?"
			}
			problems = append(problems, rule.Problem{
				Severity: severity, Field: n.Field, At: n.At, What: "no binding has the param " + n.Params + ", so that reading it fails", Do: do,
			})
		}
		if others, never := n.Never(c.Ref.Namespace); never && c.Ref.Namespace != "" {
			problems = append(problems, elsewhere(c.Ref.Namespace, n.Field, others))
		}
	}
	return problems
}

// placedParams returns the params that bindings have in place; nil if one of them has none.
func placedParams(c *compile.Compiled) []map[string]any {
	spec := c.ObjectSpec()
	if spec == nil {
		return nil
	}
	var all []map[string]any
	for i := range spec.Bindings {
		var values map[string]any
		if spec.Bindings[i].Params == nil || json.Unmarshal(spec.Bindings[i].Params.Raw, &values) != nil || values == nil {
			return nil
		}
		all = append(all, values)
	}
	return all
}

// elsewhere warns of a comparison with a namespace that the policy is not for.
func elsewhere(own, field, others string) rule.Problem {
	return rule.Problem{
		Severity: rule.Warning, Field: field,
		What: fmt.Sprintf("the policy is for objects of the namespace %s: their namespace is never %s", own, others),
		Do:   "remove the comparison, or write the policy in the other namespace",
	}
}

// dataProblems warns of kinds of data that do not exist.
func dataProblems(set *kind.Set, c *compile.Compiled) []rule.Problem {
	spec := c.ObjectSpec()
	if spec == nil {
		return nil
	}
	var problems []rule.Problem
	for i := range spec.Data {
		of, field := schema.GroupVersionKind{}, ""
		switch d := &spec.Data[i]; {
		case d.Object != nil:
			of, field = schema.FromAPIVersionAndKind(d.Object.APIVersion, d.Object.Kind), "object"
		case d.List != nil:
			of, field = schema.FromAPIVersionAndKind(d.List.APIVersion, d.List.Kind), "list"
		}
		if problem, unknown := unknownKind(set, of); unknown {
			problem.Field = fmt.Sprintf("spec.data[%d].%s", i, field)
			problems = append(problems, problem)
		}
	}
	return problems
}
