package trial

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
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
	if k := spec.ParamKind; k != nil && k.Kind != "Namespace" && unreachable(set, c, fact.Object{APIVersion: k.APIVersion, Kind: k.Kind}) {
		problems = append(problems, inNoNamespace(c, "spec.paramKind", k.Kind))
	}
	for i := range spec.Data {
		var of fact.Object
		field, computed := "", false
		switch d := &spec.Data[i]; {
		case d.Object != nil:
			of, field = fact.Object{APIVersion: d.Object.APIVersion, Kind: d.Object.Kind, Name: d.Object.Name}, "object"
			computed = d.Object.NameExpression != "" && d.Object.Kind == "Namespace"
		case d.List != nil:
			of, field = fact.Object{APIVersion: d.List.APIVersion, Kind: d.List.Kind, All: true}, "list"
		}
		field = fmt.Sprintf("spec.data[%d].%s", i, field)
		if problem, unknown := unknownKind(set, schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)); unknown {
			problem.Field = field
			problems = append(problems, problem)
		}
		if !computed && unreachable(set, c, of) {
			problems = append(problems, inNoNamespace(c, field, of.Kind))
		}
	}
	return problems
}

// unreachable reports whether a policy is of a namespace, and reads objects of a kind that are in none.
func unreachable(set *kind.Set, c *compile.Compiled, o fact.Object) bool {
	if c.Ref.Namespace == "" || len(c.Rules) == 0 || !set.ClusterScoped(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)) {
		return false
	}
	o.AnyScope = true
	return !c.Rules[0].Facts.Within(&o).AnyScope
}

func inNoNamespace(c *compile.Compiled, field, of string) rule.Problem {
	return rule.Problem{
		Severity: rule.Error, Field: field + ".kind", Do: rule.AskToRead,
		What: fmt.Sprintf("objects of the kind %s are in no namespace, and a policy of namespace %s reads objects of that namespace only, and its own Namespace", of, c.Ref.Namespace),
	}
}
