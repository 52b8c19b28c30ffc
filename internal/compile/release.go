package compile

import (
	"fmt"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// lacking says what a release of Kubernetes lacks that an admission policy uses. Functions are errors;
// the kind is not, since Usher can enforce policies for an API server that has none.
func (c *Compiled) lacking(r rule.Release) []rule.Problem {
	if r == (rule.Release{}) {
		return nil
	}
	var problems []rule.Problem
	of := c.Policy.Object.GetObjectKind().GroupVersionKind()
	if kind, _ := api.KindNamed(of); r.Minor() < kind.Since {
		problems = append(problems, rule.Problem{
			Severity: rule.Warning, Field: "apiVersion", What: fmt.Sprintf("API servers of Kubernetes %s have no %s in %s: it needs Kubernetes 1.%d", r, of.Kind, of.GroupVersion(), kind.Since),
			Do: "let Usher enforce it, or write an older version",
		})
	}
	var portability admission.Portability
	for _, e := range c.expressions() {
		what, first, err := portability.Lacks(r, e.Text)
		switch {
		case err != nil:
			problems = append(problems, rule.Problem{Severity: rule.Error, Field: e.Field, What: err.Error(), Do: "report this as a defect"})
		case what != "":
			problems = append(problems, rule.Problem{
				Severity: rule.Error, Field: e.Field, What: fmt.Sprintf("needs Kubernetes %s because of %s, and the policy is for %s", first, what, r),
				Do: "do without it, or give the version of the cluster with --kube-version",
			})
		}
	}
	return problems
}

// expressions returns the expressions of an admission policy.
func (c *Compiled) expressions() []admission.Expression {
	if typed := c.Typed(); typed != nil {
		return typed.Expressions()
	}
	return nil
}
