package compile

import (
	"context"
	"fmt"
	"time"

	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// A Checker compiles policies where that can be stopped, before they are compiled here. It is safe for
// concurrent use.
type Checker interface {
	// Check compiles a policy. If that cannot be done before ctx is done, the problem is Pending.
	Check(ctx context.Context, p api.Policy, depth Depth) Checked
}

// LongestTrial limits the time to try a policy, whatever limits the trial has for its parts.
const LongestTrial = time.Second

// Depth says what a [Checker] does with a policy.
type Depth int

const (
	// Compiling is all.
	Compiling Depth = iota
	// Trying means to compile the policy, and to try it on sample objects.
	Trying
)

// A Checked is what a [Checker] has found out.
type Checked struct {
	// Problem is why the policy must not be compiled here; it is empty if it may be.
	Problem rule.Problem
	// Took is how much processor time that took.
	Took time.Duration
}

// Again is the time after which a policy whose compilation was stopped is tried once more.
const Again = time.Hour

// checked returns a policy that is not compiled here, because of a problem; ok is false if it may be.
func (o Options) checked(ctx context.Context, p api.Policy) (c Compiled, ok bool) {
	c = Compiled{Policy: p, Ref: Ref(p.Object)}
	if o.Checker == nil {
		return c, false
	}
	checked := o.Checker.Check(ctx, p, o.Depth)
	c.Took = checked.Took
	problem := checked.Problem
	// What operators have written does not wait for what others have.
	if problem == (rule.Problem{}) || problem.Pending && c.Ref.Namespace == "" {
		return c, false
	}
	took := c.Took
	c = o.without(p, problem)
	c.Took = took
	return c, true
}

// Pending returns a policy that is not compiled yet: whatever takes long is left out, and fails until
// it is compiled. It takes no longer than decoding the policy did.
func (o Options) Pending(p api.Policy) Compiled {
	switch p.Object.(type) {
	case *usherv1alpha1.ObjectPolicy, *usherv1alpha1.AuthorizationPolicy:
		return o.without(p, rule.Problem{Pending: true, What: "it has not been compiled yet", Do: "wait"})
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return o.Policy(now, p)
}

// without returns a policy that is not compiled because of a problem. If that is pending, an object
// policy always fails; an authorization policy without rules allows nothing.
func (o Options) without(p api.Policy, problem rule.Problem) Compiled {
	c := Compiled{Policy: p, Ref: Ref(p.Object)}
	if policy, ok := p.Object.(*usherv1alpha1.ObjectPolicy); ok && problem.Pending {
		c.Object = object.Pending(policy, o.Limits)
		c.Rules = c.Object.Rules()
	}
	problem.Severity = rule.Error
	c.Problems = []rule.Problem{c.Place(problem)}
	return c
}

// Stopped returns why compiling the policy was stopped; the zero value if it was not.
func (c *Compiled) Stopped() rule.Stopped {
	for i := range c.Problems {
		if stopped := c.Problems[i].Stopped; stopped != (rule.Stopped{}) && c.Problems[i].Severity == rule.Error {
			return stopped
		}
	}
	return rule.Stopped{}
}

// crashed returns a policy whose compilation panicked.
func crashed(p api.Policy, panicked any) Compiled {
	c := Compiled{Policy: p, Ref: Ref(p.Object)}
	c.Problems = []rule.Problem{c.Place(rule.Problem{
		Severity: rule.Error, What: fmt.Sprintf("compiling it crashes: %v", panicked),
		Do: "report this as a bug of Usher, with the policy",
	})}
	return c
}
