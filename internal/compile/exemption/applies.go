package exemption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An applies is the first program of an exemption: it skips the requests of users and for resources
// that are not exempt. Each of its checks is a clause that excludes the request.
type applies struct {
	match       spec.Match
	subjects    []authz.Subject
	object, old *usher.Paths
}

func (a *applies) read() {
	a.object, a.old = &usher.Paths{}, &usher.Paths{}
	a.match.AddPaths(a.object, a.old)
	// The object that is deleted is the old one to selectors.
	a.object.Merge(a.old)
}

// ReadPaths implements [rule.Selective].
func (a *applies) ReadPaths() (object, old *usher.Paths) { return a.object, a.old }

// DependsOn implements [rule.Dependent].
func (a *applies) DependsOn(usher.Operation) rule.Dependencies {
	all := a.match.DependsOn()
	if len(a.subjects) > 0 {
		all |= rule.OnUser
	}
	return all
}

// String implements [rule.Program].
func (a *applies) String() string { return "subjects and matchConstraints" }

// Run implements [rule.Program].
func (a *applies) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	var out rule.Outcome
	if why := a.excludesUser(in.Request); why != "" {
		exclude(&out, usher.Check{Name: rule.ExemptionSubjects, Message: why})
	}
	why, err := a.mismatch(in)
	if err != nil {
		return rule.Outcome{}, err
	}
	if why != "" {
		exclude(&out, usher.Check{Name: "spec.matchConstraints", Message: why})
	}
	return out, nil
}

// exclude adds a clause that excludes the request to an outcome.
func exclude(out *rule.Outcome, clause usher.Check) {
	out.Checks = append(out.Checks, clause)
	out.Skipped = out.Checks[0].Message
}

func (a *applies) excludesUser(r *usher.Request) string {
	if len(a.subjects) == 0 || authz.Among(a.subjects, &r.User) {
		return ""
	}
	return fmt.Sprintf("its subjects do not include user %q", r.User.Name)
}

func (a *applies) mismatch(in *rule.Input) (string, error) {
	why, err := a.match.Mismatch(in)
	if _, missing := errors.AsType[*fact.Missing](err); missing {
		return "", err
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("read namespace: %w", err)
	case why != "":
		return "its matchConstraints exclude the request: " + why, nil
	}
	return "", nil
}

// A conditions is the second program: it skips the requests for which a match condition is not true.
// They are compiled as validations: expressions of those see the namespace of the object.
type conditions struct {
	program     *admission.Program
	names       []string
	object, old *usher.Paths
}

func conditionsOf(budget *cel.Budget, all []admission.Named) (*conditions, []rule.Problem) {
	if len(all) == 0 {
		return nil, nil
	}
	c := &conditions{}
	var source admission.Code
	for _, named := range all {
		c.names = append(c.names, named.Name)
		source.Validations = append(source.Validations, admission.Validation{Expression: named.Expression})
	}
	var problems []rule.Problem
	c.program, problems = admission.CompileWithin(budget, source)
	for i := range problems {
		problems[i].Field = strings.Replace(problems[i].Field, "spec.validations", "spec.matchConditions", 1)
	}
	if c.program != nil {
		c.object, c.old = c.program.ReadPaths()
		// The object that is deleted is the old one to expressions.
		c.object.Merge(c.old)
	}
	return c, problems
}

// ReadPaths implements [rule.Selective].
func (c *conditions) ReadPaths() (object, old *usher.Paths) { return c.object, c.old }

// DependsOn implements [rule.Dependent].
func (c *conditions) DependsOn(operation usher.Operation) rule.Dependencies {
	return c.program.DependsOn(operation)
}

// String implements [rule.Program].
func (c *conditions) String() string { return "matchConditions" }

// Run implements [rule.Program].
func (c *conditions) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	input := spec.Input(in)
	result, err := c.program.Evaluate(ctx, input)
	if err != nil {
		return rule.Outcome{}, err
	}
	var out rule.Outcome
	for i := range result.Denials {
		d := &result.Denials[i]
		why := fmt.Sprintf("its matchConditions[%s] is false", c.names[d.Index])
		switch {
		case d.Whole:
			why = "its matchConditions have no value: " + d.Message
		case d.Failed:
			why = fmt.Sprintf("its matchConditions[%s] has no value: %s", c.names[d.Index], d.Message)
		}
		exclude(&out, usher.Check{Name: "spec.matchConditions", Message: why, Failed: d.Whole || d.Failed})
	}
	return out, nil
}
