package trial

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// plainPath is a path of fields, and of indices of lists, without keys in brackets.
var plainPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\[[0-9]+\]|\.[A-Za-z_][A-Za-z0-9_]*)*$`)

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// fieldPathProblems warns of fields that users would be told of, and no object has that the policy is for.
func fieldPathProblems(set *kind.Set, c *compile.Compiled, m *rule.ResourceMatch) []rule.Problem {
	spec := c.ObjectSpec()
	if spec == nil {
		return nil
	}
	var problems []rule.Problem
	for i := range spec.Validations {
		if p, wrong := fieldPathProblem(set, spec.Validations[i].FieldPath, m); wrong {
			p.Field = fmt.Sprintf("spec.validations[%d].fieldPath", i)
			problems = append(problems, p)
		}
	}
	return problems
}

// fieldPathProblem reports whether none of the objects has the field. What is not known may have it.
func fieldPathProblem(set *kind.Set, written string, m *rule.ResourceMatch) (wrong rule.Problem, found bool) {
	if !plainPath.MatchString(written) {
		return wrong, false
	}
	p := path(strings.Split(listIndex.ReplaceAllString(written, "."+rule.Element), "."))
	targets, unknown := targetsOf(set, m)
	if len(unknown) > 0 || !set.Complete && matchesAny(set, m) {
		return wrong, false
	}
	for _, target := range targets {
		like := set.Schema(target.Kind)
		step := set.Follow(like, p)
		if step.Wrong == 0 || step.Parent != kind.Object {
			return wrong, false
		}
		if !found {
			wrong, found = wrongPath(set, like, target.Kind.Kind, p, step), true
		}
	}
	return wrong, found
}
