package authorization

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/cel/authorization"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func (c *compilation) conditions(field string, written []v1alpha1.Condition) []authz.Condition {
	var all []authz.Condition
	for i, w := range written {
		at := fmt.Sprintf("%s[%d]", field, i)
		source := strings.TrimSpace(w.Cel)
		if source == "" {
			c.fail(at+".cel", "the condition has no expression", "write one such as 'mfa' in request.groups")
			continue
		}
		predicate, problems := authorization.CompileWithin(&c.budget, source)
		for _, p := range problems {
			p.Field = at + ".cel"
			c.problems = append(c.problems, p)
		}
		all = append(all, authz.Condition{Name: cmp.Or(w.Name, at), Source: source, Predicate: predicate})
	}
	return all
}

var cueCondition = regexp.MustCompile(`^spec\.(when|unless)\[\d+\]\.cue$`)

// Unknown explains a field that the kinds deliberately do not have: conditions in CUE.
func Unknown(path string) (rule.Problem, bool) {
	if !cueCondition.MatchString(path) {
		return rule.Problem{}, false
	}
	return rule.Problem{
		Severity: rule.Error, Field: path,
		What: "conditions of authorization policies are not written in CUE: evaluating it takes longer than all the rest of a decision",
		Do:   "write the condition in CEL, under cel",
	}, true
}
