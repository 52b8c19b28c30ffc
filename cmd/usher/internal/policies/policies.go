// Package policies reads policies from the files that commands get, and compiles them.
package policies

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/index"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/source"
)

// A Set is policies without errors, compiled.
type Set struct {
	Rules []rule.Rule

	compiler bounded.Compiler
	// compiled has the rules of Rules.
	compiled   []compile.Compiled
	candidates candidates
}

// None returns a set without policies.
func None(flags *Limits) (Set, error) {
	compiler, err := flags.Compiler()
	return Set{compiler: compiler}, err
}

// CheckedBy returns the set with a checker that is asked before a policy is compiled.
func (p Set) CheckedBy(c compile.Checker) Set {
	p.compiler.Options.Checker, p.compiler.Options.Depth = c, compile.Trying
	return p
}

// setOf returns the set of compiled policies, of which API servers enforce some themselves.
func setOf(c bounded.Compiler, compiled []compile.Compiled, theirs map[usher.PolicyRef]bool) Set {
	for i := range compiled {
		compiled[i].Elsewhere = theirs[compiled[i].Ref]
	}
	return Set{Rules: compile.Order(compiled), compiler: c, compiled: compiled}
}

// Compiled returns the policies as they are compiled. It is shared: do not change it.
func (p Set) Compiled() []compile.Compiled { return p.compiled }

// Only returns the set with some of its policies.
func (p Set) Only(keep func(usher.PolicyRef) bool) Set {
	p.compiled = slices.DeleteFunc(slices.Clone(p.compiled), func(c compile.Compiled) bool { return !keep(c.Ref) })
	p.Rules = compile.Order(p.compiled)
	return p
}

// Timeout returns how long one of the policies may take for an object; 0 is any time.
func (p Set) Timeout() time.Duration { return p.compiler.Timeout }

// Deciding returns the policies that have rules for writes of objects, in the order of evaluation.
func (p Set) Deciding() []usher.PolicyRef {
	var refs []usher.PolicyRef
	for i := range p.Rules {
		if ref := p.Rules[i].Policy; ref.Name != "" && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// With returns the set with one more policy, or the errors of that policy: those for which it would
// be refused if it were written now.
func (p Set) With(ctx context.Context, more api.Policy) (Set, []rule.Problem, error) {
	compiled, err := p.compiler.Policy(ctx, more)
	if err != nil {
		return Set{}, nil, err
	}
	if errs := rule.Errors(rule.Written(compiled.Problems)); len(errs) > 0 {
		return Set{}, errs, nil
	}
	p.compiled = append(slices.Clone(p.compiled), compiled)
	p.Rules = compile.Order(p.compiled)
	return p, nil, nil
}

// OnPods returns the set as [compile.OnPods] does.
func (p Set) OnPods() Set {
	p.compiled = compile.OnPods(p.compiled)
	p.Rules = compile.Order(p.compiled)
	return p
}

// Usable reads policies for cmd, and returns their errors if there are any.
func Usable(cmd *cobra.Command, s cli.Streams, paths []string, flags *Limits) (Set, error) {
	none, err := None(flags)
	if err != nil {
		return Set{}, err
	}
	set, err := none.After(cmd, s, paths)
	if err == nil && set.OfCandidates() && len(set.compiled) == 0 {
		err = fmt.Errorf("%s embeds no policies: what is left without one that it removes is in other files", set.candidates.refs[0])
	}
	return set, err
}

// After is [Usable] for policies that come after those of another set: what did not change is compiled
// once, and is the same in both.
func (p Set) After(cmd *cobra.Command, s cli.Streams, paths []string) (Set, error) {
	set, err := ReadSome(cmd, s, paths)
	if err != nil {
		return Set{}, err
	}
	after, errs, err := p.AfterText(cmd.Context(), set)
	if err != nil {
		return Set{}, err
	}
	if len(errs) > 0 {
		return Set{}, invalid(cmd, s, errs)
	}
	after.candidates.note(cmd, s)
	return after, nil
}

// AfterText is [Set.After] for policies that have been read. It returns their errors instead of a set if there are any.
func (p Set) AfterText(ctx context.Context, set source.Set) (Set, []rule.Problem, error) {
	before := map[usher.PolicyRef]*compile.Compiled{}
	for i := range p.compiled {
		before[p.compiled[i].Ref] = &p.compiled[i]
	}
	compiled := make([]compile.Compiled, len(set.Policies))
	for i, policy := range set.Policies {
		if same := before[compile.Ref(policy.Object)]; same != nil && same.Policy.Proof == policy.Proof && reflect.DeepEqual(same.Policy.Object, policy.Object) {
			compiled[i] = *same
			continue
		}
		var err error
		if compiled[i], err = p.compiler.Policy(ctx, policy); err != nil {
			return Set{}, nil, err
		}
	}
	if errs := rule.Errors(bounded.Problems(set, compiled)); len(errs) > 0 {
		return Set{}, errs, nil
	}
	deciding, read, err := inForce(compiled)
	after := setOf(p.compiler, deciding, nil)
	after.candidates = read
	return after, nil, err
}

func invalid(cmd *cobra.Command, s cli.Streams, errs []rule.Problem) error {
	if !cli.ForMachines(cmd) {
		for _, p := range errs {
			fmt.Fprintln(s.Err, printable.Line(p.String()))
		}
	}
	err := fmt.Errorf("%s in the policies: correct them first, see 'usher check'", cli.Count(len(errs), "error", "errors"))
	return &cli.ProblemsError{Code: cli.CodeInvalidPolicies, Problems: errs, Err: err}
}

// Authorizer returns a decider of requests to authorize, and the rules by which it decides.
func (p Set) Authorizer() (usher.Decider, []*authz.Rule) {
	rules := compile.Access(p.compiled)
	return authzengine.New(authzindex.New(rules), authzengine.Options{}), rules
}

// Decider returns a decider for the policies, which also decides writes of policies.
func (p Set) Decider(facts fact.Resolver) usher.Decider {
	by := func(rules []rule.Rule) usher.Decider {
		return engine.New(index.New(rules), facts, engine.Options{FailurePolicy: usher.Fail, RuleTimeout: ruleTimeout(p.compiler.Timeout)})
	}
	return engine.NewEntries(p.Rules, rule.Cover(p.Rules).Entries(), guard.Wrap(by(p.Rules), guard.Options{Compile: p.compiler.Options, KeepSpecs: true}), by)
}

// longestRule is how long servers let a rule run.
const longestRule = time.Second

// ruleTimeout is how long a rule may run that looks at its context.
func ruleTimeout(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return min(timeout, longestRule)
	}
	return longestRule
}
