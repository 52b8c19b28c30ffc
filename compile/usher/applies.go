package usher

import (
	"context"
	"errors"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/compile/spec"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/lang/cel/admission"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/authz"
)

// An applies is the program of an exemption: it skips the requests that are not exempt. Each of its
// checks is a clause that excludes the request; after the second it looks no further.
type applies struct {
	match     spec.Match
	resources rule.ResourceMatch
	// limited says that there are resources.
	limited     bool
	subjects    []authz.Subject
	conditions  *conditions
	object, old *usher.Paths
}

func (a *applies) read() {
	a.object, a.old = &usher.Paths{}, &usher.Paths{}
	if a.conditions != nil {
		object, old := a.conditions.program.ReadPaths()
		a.object.Merge(object)
		a.old.Merge(old)
	}
	a.match.AddPaths(a.object, a.old)
	// The object that is deleted is the old one to expressions.
	a.object.Merge(a.old)
}

// ReadPaths implements [rule.Selective].
func (a *applies) ReadPaths() (object, old *usher.Paths) { return a.object, a.old }

// String implements [rule.Program].
func (a *applies) String() string { return "applies" }

// Run implements [rule.Program].
func (a *applies) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	var out rule.Outcome
	exclude := func(field, why string) {
		out.Checks = append(out.Checks, usher.Check{Name: field, Message: why})
		out.Skipped = out.Checks[0].Message
	}
	if why := a.excludesUser(in.Request); why != "" {
		exclude("spec.subjects", why)
	}
	why, err := a.mismatch(in)
	if err != nil {
		return rule.Outcome{}, err
	}
	if why != "" {
		exclude("spec.matchConstraints", why)
	}
	if len(out.Checks) > 1 || a.conditions == nil {
		return out, nil
	}
	failed, err := a.conditions.failed(ctx, in)
	for i := range failed {
		exclude("spec.matchConditions", failed[i])
	}
	return out, err
}

func (a *applies) excludesUser(r *usher.Request) string {
	if len(a.subjects) == 0 || authz.Among(a.subjects, &r.User) {
		return ""
	}
	return fmt.Sprintf("its subjects do not include user %q", r.User.Name)
}

func (a *applies) mismatch(in *rule.Input) (string, error) {
	if a.limited {
		if why := a.resources.Mismatch(in.Request); why != "" {
			return "its matchConstraints exclude the request: " + why, nil
		}
	}
	why, err := a.match.Skips(in)
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

// A conditions has match conditions. They are compiled as validations: expressions of those see the
// namespace of the object.
type conditions struct {
	program *admission.Program
	names   []string
}

func conditionsOf(all []admission.Named) (*conditions, []rule.Problem) {
	if len(all) == 0 {
		return nil, nil
	}
	c := &conditions{}
	var source admission.Source
	for _, named := range all {
		c.names = append(c.names, named.Name)
		source.Validations = append(source.Validations, admission.Validation{Expression: named.Expression})
	}
	var problems []rule.Problem
	c.program, problems = admission.Compile(source)
	for i := range problems {
		problems[i].Field = strings.Replace(problems[i].Field, "spec.validations", "spec.matchConditions", 1)
	}
	return c, problems
}

// failed returns why conditions exclude a request.
func (c *conditions) failed(ctx context.Context, in *rule.Input) ([]string, error) {
	input := spec.Input(in)
	result, err := c.program.Evaluate(ctx, &input)
	if err != nil {
		return nil, err
	}
	var whys []string
	for i := range result.Denials {
		d := &result.Denials[i]
		switch {
		case d.Whole:
			whys = append(whys, "its matchConditions have no value: "+d.Message)
		case d.Failed:
			whys = append(whys, fmt.Sprintf("its matchConditions[%s] has no value: %s", c.names[d.Index], d.Message))
		default:
			whys = append(whys, fmt.Sprintf("its matchConditions[%s] is false", c.names[d.Index]))
		}
	}
	return whys, nil
}
