// Package policies reads policies from the files that commands get, and compiles them.
package policies

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/compile/guard"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/index"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/rule"
)

// A Set is policies without errors, compiled.
type Set struct {
	Rules []rule.Rule

	limits   rule.Limits
	policies []api.Policy
	// files are the policies that come from files; nil if all do.
	files map[usher.PolicyRef]bool
	// elsewhere are the policies that API servers enforce themselves.
	elsewhere map[usher.PolicyRef]bool
}

// None returns a set without policies.
func None(flags *Limits) (Set, error) {
	limits, err := flags.Limits()
	return Set{limits: limits}, err
}

// Compiled returns the policies as they are compiled.
func (p Set) Compiled(ctx context.Context) []compile.Compiled {
	compiled, _ := compile.Options{Limits: p.limits}.All(ctx, p.policies)
	for i := range compiled {
		compiled[i].Elsewhere = p.elsewhere[compiled[i].Ref]
	}
	return compiled
}

// FromFile reports whether a policy comes from a file, and not from a cluster or another set.
func (p Set) FromFile(ref usher.PolicyRef) bool { return p.files == nil || p.files[ref] }

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
func (p Set) With(ctx context.Context, more api.Policy) (Set, []rule.Problem) {
	o := compile.Options{Limits: p.limits}
	if errs := rule.Errors(rule.Written(o.Policy(ctx, more).Problems)); len(errs) > 0 {
		return Set{}, errs
	}
	p.policies = append(slices.Clone(p.policies), more)
	p.Rules, _ = o.Policies(ctx, p.policies)
	return p, nil
}

// Usable reads policies for cmd, and returns their errors if there are any.
func Usable(cmd *cobra.Command, s cli.Streams, paths []string, flags *Limits) (Set, error) {
	limits, err := flags.Limits()
	if err != nil {
		return Set{}, err
	}
	set, err := ReadSome(cmd, s, paths)
	if err != nil {
		return Set{}, err
	}
	if errs := rule.Errors(Problems(set, limits)); len(errs) > 0 {
		return Set{}, invalid(cmd, s, errs)
	}
	rules, _ := compile.Options{Limits: limits}.Policies(context.Background(), set.Policies)
	return Set{Rules: rules, limits: limits, policies: set.Policies}, nil
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

// Decider returns a decider for the policies, which also decides writes of policies.
func (p Set) Decider(facts fact.Resolver) usher.Decider {
	by := func(rules []rule.Rule) usher.Decider {
		return engine.New(index.New(rules), facts, engine.Options{FailurePolicy: engine.Fail})
	}
	return engine.NewEntries(p.Rules, rule.Cover(p.Rules).Entries(), guard.Wrap(by(p.Rules), guard.Options{Compile: compile.Options{Limits: p.limits}, KeepSpecs: true}), by)
}

// HTTPFacts returns a resolver that calls HTTP services; local includes those on loopback and
// link-local addresses.
func HTTPFacts(local bool) fact.Resolver { return facthttp.New(facthttp.Options{AllowLocal: local}) }
