package compile

import (
	"reflect"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/rule"
)

// Ref names a policy. The kind is that of the Go type, since typed clients omit it in the object;
// cluster-scoped kinds have no namespace, even if the object has one.
func Ref(object api.Object) usher.PolicyRef {
	if object == nil {
		return usher.PolicyRef{}
	}
	ref := usher.PolicyRef{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if kind, ok := api.KindOf(object); ok {
		ref.Kind = kind.Kind
		if !kind.Namespaced {
			ref.Namespace = ""
		}
	}
	return ref
}

func metadata(ref usher.PolicyRef, object api.Object) []rule.Problem {
	if object == nil {
		return nil
	}
	var problems []rule.Problem
	if ref.Name == "" {
		problems = append(problems, rule.Problem{
			Severity: rule.Error, Field: "metadata.name", What: "the policy has no name",
			Do: "set metadata.name",
		})
	}
	if p, wrong := placement(ref, object); wrong {
		problems = append(problems, p)
	}
	return problems
}

// placement is the problem with the policy's namespace, if there is one.
func placement(ref usher.PolicyRef, object api.Object) (p rule.Problem, wrong bool) {
	kind, _ := api.KindOf(object)
	concerns, limit := "the objects", "spec.resourceSelectors"
	if kind.Authorizes {
		concerns, limit = "requests", "spec.rules"
	}
	switch {
	case kind.Namespaced && ref.Namespace == "":
		return rule.Problem{
			Severity: rule.Error, Field: "metadata.namespace",
			What: "the policy has no namespace: it is for " + concerns + " of its own namespace, so it is for none",
			Do:   "set metadata.namespace, or use a Cluster" + kind.Kind + " for " + concerns + " of every namespace",
		}, true
	case !kind.Namespaced && object.GetNamespace() != "":
		return rule.Problem{
			Severity: rule.Warning, Field: "metadata.namespace",
			What: "the policy is cluster-scoped: it is for " + concerns + " of every namespace",
			Do:   "remove metadata.namespace, and name the namespace in " + limit + " if it was meant as a limit",
		}, true
	}
	return rule.Problem{}, false
}

// fields are the problems with the fields that are written down: those that the kind does
// not have and those that stand there twice.
func fields(p api.Policy) []rule.Problem {
	var problems []rule.Problem
	for _, path := range p.Unknown {
		if problem, known := authorization.Unknown(path); known {
			problems = append(problems, problem)
			continue
		}
		problem := rule.Problem{
			Severity: rule.Error, Field: path, What: "unknown field",
			Do: "remove it: the API server drops it",
		}
		switch near, others := rule.NearField(reflect.TypeOf(p.Object), path); {
		case near != "":
			problem.Do = "did you mean " + near + "?"
		case len(others) > 0 && len(others) <= 6:
			problem.Do = "remove it, or use one of the fields here (" + strings.Join(others, ", ") + "): the API server drops it"
		}
		problems = append(problems, problem)
	}
	for _, path := range p.Duplicate {
		problems = append(problems, rule.Problem{
			Severity: rule.Warning, Field: path, What: "the field is written more than once: the last one counts",
			Do: "keep one",
		})
	}
	return problems
}
