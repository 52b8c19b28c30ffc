package live

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	current "github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A Policy is the state of one policy.
type Policy struct {
	Ref usher.PolicyRef
	// Compiled reports whether the newest version compiles, and Enforced whether a version is in
	// force: the newest if Compiled, else the last good one. An admission policy of Kubernetes without a binding,
	// and a binding without its policy, are not in force.
	Compiled, Enforced bool
	// Pending reports that the newest version is not compiled yet. Unless an older one is in force,
	// the policy fails until then.
	Pending bool
	// Problems are those of the newest version, with all that [Live.Problems] has of the policy.
	Problems []Problem
}

// A Problem is something that is wrong with a policy, or with a file of policies.
type Problem struct {
	// Policy is empty for a file that cannot be read.
	Policy usher.PolicyRef
	// Severity is error, mistake or warning. A policy with an error is not in force; one with a mistake
	// is, but cannot do what it says.
	Severity string
	// Field is the path of the field, such as spec.validateRules[0].
	Field string
	// What is wrong, and what to Do about it: a sentence each, without full stop.
	What, Do string
	// File, Line and Column tell where, if the policy came from a file. Line and Column count from 1;
	// Column is known only of a place in a text, such as an expression.
	File         string
	Line, Column int
}

// String is the problem in one line, as commands print it:
//
//	a.yaml:12:9: error: ClusterObjectPolicy x: spec.validations[0].expression: what is wrong; what to do
func (p Problem) String() string {
	return rule.Problem{
		Policy: p.Policy, Severity: rule.Severity(p.Severity), Field: p.Field, What: p.What, Do: p.Do, File: p.File, Line: p.Line, Column: p.Column,
	}.String()
}

// Policies returns the state of each policy.
func (l *Live) Policies() []Policy {
	states, idle := current.States(l.current), compile.Idle(l.current.Enforced())
	policies := make([]Policy, len(states))
	for i := range states {
		s := &states[i]
		policies[i] = Policy{Ref: s.Policy, Compiled: s.Compiled, Enforced: s.Enforced && !idle[s.Policy], Pending: s.Pending, Problems: problems(s.Problems)}
	}
	return policies
}

// noPolicies is the problem of sources without policies.
var noPolicies = Problem{
	Severity: string(rule.Warning), What: "there are no policies: nothing is denied, changed or authorized", Do: "write one, or name the file or folder that has them",
}

// Problems returns the problems of all policies and files, sorted. That the sources have no policies at all is one. What trying policies on sample objects
// finds comes a little after they are in force: see [Live.WaitTried].
func (l *Live) Problems() []Problem {
	all := problems(current.Problems(l.current))
	if status := l.current.Status(); status.Generation > 0 && len(status.Policies) == 0 {
		all = append(all, noPolicies)
	}
	return all
}

func problems(all []rule.Problem) []Problem {
	var problems []Problem
	for _, p := range all {
		what := p.What
		if p.Column == 0 {
			what = p.Text()
		}
		problems = append(problems, Problem{
			Policy: p.Policy, Severity: string(p.Severity), Field: p.Field, What: what, Do: p.Do, File: p.File, Line: p.Line, Column: p.Column,
		})
	}
	return problems
}

// Grants returns what the authorization policies in force allow a user in a namespace, in the order of
// evaluation; the empty namespace means cluster-scoped resources. Its error is [ErrNotLoaded] until
// every source has handed over its policies.
func (l *Live) Grants(_ context.Context, user usher.User, namespace string) (usher.Grants, error) {
	access := l.current.Access()
	if access == nil {
		return usher.Grants{}, ErrNotLoaded
	}
	return access.Grants(user, namespace), nil
}

// WebhookConfigurations returns the webhook configurations that 'usher serve' would register for the policies in force, in a
// cluster whose resources the mapper knows: simulate.Registered takes this method. Kinds that it does not know are left out.
func (l *Live) WebhookConfigurations(mapper meta.RESTMapper) ([]map[string]any, error) {
	return webhookconfig.Trees(l.current.Coverage(), mapper)
}
