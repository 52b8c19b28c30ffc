package compile

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/definition"
	"github.com/usher-dev/usher/internal/rule"
)

// refused returns what API servers would refuse by the CRD of a policy, without the fields that have
// an error among problems. Kinds of kinitiras are enforced from files although their CRD may refuse
// them, and compilers of authorization policies check all that the CRDs do.
func refused(ctx context.Context, p api.Policy, problems []rule.Problem) []rule.Problem {
	kind, ok := api.KindOf(p.Object)
	if !ok || kind.Authorizes || kind.Group != usherv1alpha1.GroupVersion.Group {
		return nil
	}
	return againstDefinition(ctx, &kind, p, problems)
}

// againstDefinition is refused for any kind that has a CRD.
func againstDefinition(ctx context.Context, kind *api.Kind, p api.Policy, problems []rule.Problem) []rule.Problem {
	errs, err := definition.Check(ctx, kind, p.Object)
	if err != nil {
		return []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: "report this: it is a defect of Usher"}}
	}
	var found []rule.Problem
	for _, e := range errs {
		if !slices.ContainsFunc(problems, func(p rule.Problem) bool { return p.Severity == rule.Error && about(p.Field, e.Field) }) {
			found = append(found, rule.Problem{Severity: rule.Error, Field: e.Field, What: sentence(e), Do: "correct it: API servers refuse the policy"})
		}
	}
	return found
}

// sentence returns an error of an API server without its field.
func sentence(e *field.Error) string {
	text := e.ErrorBody()
	if e.Type == field.ErrorTypeInvalid {
		if _, rule, ok := strings.Cut(text, ": "+e.Field+" in body "); ok {
			return "it " + rule
		}
		if _, rule, ok := strings.Cut(text, ": "+e.Detail); ok && rule == "" {
			return e.Detail
		}
	}
	return text
}

// about reports whether a problem at one field explains an error at another.
func about(problem, refused string) bool {
	below := func(a, b string) bool {
		rest, ok := strings.CutPrefix(a, b)
		return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
	}
	return problem == refused || below(refused, problem) && problem != "spec" || below(problem, refused) && refused != "spec"
}
