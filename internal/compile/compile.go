// Package compile turns policies into rules. Only this package and the folder of its API group know
// a kind of policy.
//
// Compile errors are reported as problems, and do not affect other policies or other rules: a step
// that always fails replaces the part with the error, so that the failure policy decides the
// requests that the policy was meant for, instead of letting them through.
package compile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/admissionregistration"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/compile/exemption"
	"github.com/usher-dev/usher/internal/compile/kcloudlabs"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Compiled is a policy and what it compiled to. It is immutable.
type Compiled struct {
	Policy api.Policy
	Ref    usher.PolicyRef
	// Rules are in the order of the policy; Problems are sorted. With a problem of
	// severity Error the rules are those that could be made: callers decide whether to
	// use them.
	Rules []rule.Rule
	// Access are the rules of an authorization policy, which has no others.
	Access []*authz.Rule
	// Admission and Binding are an admission policy and a binding of one, which have rules
	// together: see [Order].
	Admission *admissionregistration.Policy
	Binding   *admissionregistration.Binding
	// Exemption is that of an exemption, which has no rules: see [Order].
	Exemption *rule.Exemption
	// Candidate is that of a policy candidate, which has no rules.
	Candidate *Candidate
	// Object is an object policy; its rules are in Rules.
	Object *object.Policy
	// Resumed is what a suspended policy, which has nothing of the above, would be in force; nil for others.
	Resumed *Compiled
	// Elsewhere says that API servers enforce the policy themselves: they know no exemptions.
	Elsewhere bool
	Problems  []rule.Problem
	// Took is how much processor time compiling it took where that could be stopped; if it was compiled
	// here only, how long that took.
	Took time.Duration
}

// Options are where policies are compiled, and where their programs run. The zero Options works.
type Options struct {
	// CUE is where CUE's evaluator runs; nil means [cue.Default].
	CUE *cue.Evaluator
	// Limits say what policies may do.
	Limits rule.Limits
	// Checker compiles policies where that can be stopped, before they are compiled here, and Depth
	// says whether it tries them as well. Nil means that they are compiled here at once.
	Checker Checker
	Depth   Depth
	// Slots limits how many policies of namespaces are compiled here at a time of those that took the
	// Checker long; nil is no limit.
	Slots chan struct{}
}

// quick is how much processor time a policy takes a worker, which may just have started, that waits for no
// others.
const quick = 100 * time.Millisecond

// longestWait is how long a policy waits for a slot. That is for the sake of requests, not of other policies.
const longestWait = time.Second

// Among returns a context to compile one of several policies of a namespace: those of namespaces with few are
// not to wait for those of others with many.
func Among(ctx context.Context, policies int) context.Context { return worker.Wanting(ctx, policies) }

// InBackground returns a context for evaluations that nobody waits for: those in processes of their own come
// after all others.
func InBackground(ctx context.Context) context.Context { return worker.InBackground(ctx) }

// Policy is the Policy of the zero [Options], without a limit of time.
func Policy(p api.Policy) Compiled { return Options{}.Policy(context.Background(), p) }

// Policy compiles one policy, independently of others. CUE takes a tenth of a millisecond and more:
// keep the result as long as the policy does not change. What could not be checked before ctx is
// done is a problem that is Pending. A panic of a compiler is a problem of the policy.
func (o Options) Policy(ctx context.Context, p api.Policy) (c Compiled) {
	c, refused := o.checked(ctx, p)
	if refused {
		return c
	}
	took, begin := c.Took, time.Now()
	if c.Ref.Namespace != "" && took > quick && o.Slots != nil {
		select {
		case o.Slots <- struct{}{}:
			defer func() { <-o.Slots }()
		case <-time.After(longestWait):
		case <-ctx.Done():
		}
	}
	c = o.compile(ctx, p)
	if c.Took = took; took == 0 {
		c.Took = time.Since(begin)
	}
	return c
}

// compile compiles a policy here.
func (o Options) compile(ctx context.Context, p api.Policy) (c Compiled) {
	defer func() {
		if panicked := recover(); panicked != nil {
			c = crashed(p, panicked)
		}
	}()
	c = Compiled{Policy: p, Ref: Ref(p.Object)}
	compiler := kcloudlabs.Compiler{CUE: o.CUE, Limits: o.Limits}
	var problems []rule.Problem
	switch policy := p.Object.(type) {
	case *v1alpha1.OverridePolicy:
		c.Rules, problems = compiler.OverridePolicy(ctx, policy)
	case *v1alpha1.ClusterOverridePolicy:
		c.Rules, problems = compiler.ClusterOverridePolicy(ctx, policy)
	case *v1alpha1.ClusterValidatePolicy:
		c.Rules, problems = compiler.ClusterValidatePolicy(ctx, policy)
	case *usherv1alpha1.ClusterAuthorizationPolicy:
		c.Access, problems = authorization.Cluster(ctx, policy, p.Position("").File != "")
	case *usherv1alpha1.AuthorizationPolicy:
		c.Access, problems = authorization.Namespaced(ctx, policy)
	case *usherv1alpha1.ClusterPolicyExemption:
		c.Exemption, problems = exemption.Cluster(ctx, policy)
	case *usherv1alpha1.PolicyExemption:
		c.Exemption, problems = exemption.Namespaced(ctx, policy)
	case *usherv1alpha1.ClusterPolicyCandidate:
		c.Candidate, problems = o.candidate(ctx, p, &policy.Spec)
	case *usherv1alpha1.PolicyCandidate:
		c.Candidate, problems = o.candidate(ctx, p, &policy.Spec)
	case *usherv1alpha1.ClusterObjectPolicy:
		c.Object, problems = object.Cluster(ctx, policy, object.Options{Limits: o.Limits, Languages: languages{compiler}})
		c.Rules = c.Object.Rules()
	case *usherv1alpha1.ObjectPolicy:
		c.Object, problems = object.Namespaced(ctx, policy, object.Options{Limits: o.Limits, Languages: languages{compiler}})
		c.Rules = c.Object.Rules()
	case *admissionv1.MutatingAdmissionPolicy:
		c.Admission, problems = admissionregistration.MutatingAdmissionPolicy(ctx, policy)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		c.Binding, problems = admissionregistration.MutatingAdmissionPolicyBinding(policy)
	case *admissionv1.ValidatingAdmissionPolicy:
		c.Admission, problems = admissionregistration.ValidatingAdmissionPolicy(ctx, policy)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		c.Binding, problems = admissionregistration.ValidatingAdmissionPolicyBinding(policy)
	default:
		problems = []rule.Problem{{
			Severity: rule.Error, Field: "kind", What: fmt.Sprintf("%T is not a policy", p.Object),
		}}
	}
	problems = append(problems, metadata(c.Ref, p.Object)...)
	problems = append(problems, fields(p)...)
	problems = append(problems, refused(ctx, p, problems)...)
	problems = append(problems, c.lacking(o.Limits.Kubernetes)...)
	problems = append(problems, c.deleted()...)
	problems = append(problems, c.suspended()...)
	for i := range problems {
		problems[i] = c.Place(problems[i])
	}
	rule.SortProblems(problems)
	c.Problems = problems
	return c
}

// Place returns a problem of the policy with the policy and the place in its file.
func (c *Compiled) Place(p rule.Problem) rule.Problem {
	position := c.Policy.PositionIn(p.Field, p.At.Line, p.At.Column)
	p.Policy, p.File, p.Line, p.Column = c.Ref, position.File, position.Line, position.Column
	return p
}

// Pending reports whether c could not be checked wholly: compiling the policy again may tell
// otherwise.
func (c *Compiled) Pending() bool {
	return slices.ContainsFunc(c.Problems, func(p rule.Problem) bool { return p.Pending })
}

// Policies is the Policies of the zero [Options], without a limit of time.
func Policies(ps []api.Policy) ([]rule.Rule, []rule.Problem) {
	return Options{}.Policies(context.Background(), ps)
}

// All is the All of the zero [Options], without a limit of time.
func All(ps []api.Policy) ([]Compiled, []rule.Problem) {
	return Options{}.All(context.Background(), ps)
}

// Policies compiles all policies into the rules of an engine, in evaluation order, and returns all
// problems, including those between policies. The rules of authorization policies are for another
// engine: see [All].
func (o Options) Policies(ctx context.Context, ps []api.Policy) ([]rule.Rule, []rule.Problem) {
	compiled, problems := o.All(ctx, ps)
	return Order(compiled), problems
}

// All compiles all policies, each independently, and returns all problems.
func (o Options) All(ctx context.Context, ps []api.Policy) ([]Compiled, []rule.Problem) {
	compiled := make([]Compiled, len(ps))
	for i, p := range ps {
		compiled[i] = o.Policy(ctx, p)
	}
	return compiled, Problems(compiled)
}

// Problems returns all problems of policies, including those between them.
func Problems(compiled []Compiled) []rule.Problem {
	var problems []rule.Problem
	for i := range compiled {
		problems = append(problems, compiled[i].Problems...)
	}
	problems = append(problems, Duplicates(compiled)...)
	problems = append(problems, Unbound(compiled)...)
	problems = append(problems, ineffectiveAmong(compiled)...)
	rule.SortProblems(problems)
	return problems
}

// Order returns the rules of all policies and the built-in ones in the order in which they are
// emitted: by phase and pass, then those of the cluster before those of namespaces, which may take the time of a request,
// then by the policies' names and namespaces, then in the order of the policy. Each rule has the description of its policy and the exemptions from it. The order of cs does
// not matter.
func Order(cs []Compiled) []rule.Rule {
	builtIn := kcloudlabs.BuiltIn()
	var all []*rule.Rule
	for i := range builtIn {
		all = append(all, &builtIn[i])
	}
	for i := range cs {
		for j := range cs[i].Rules {
			all = append(all, &cs[i].Rules[j])
		}
	}
	linked := link(cs)
	for i := range linked {
		all = append(all, &linked[i])
	}
	phases := []usher.Phase{usher.Mutate, usher.Validate}
	slices.SortStableFunc(all, func(a, b *rule.Rule) int {
		return cmp.Or(
			cmp.Compare(slices.Index(phases, a.Phase), slices.Index(phases, b.Phase)),
			cmp.Compare(a.Pass, b.Pass),
			cmp.Compare(min(len(a.Policy.Namespace), 1), min(len(b.Policy.Namespace), 1)),
			cmp.Compare(a.Policy.Name, b.Policy.Name),
			cmp.Compare(a.Policy.Namespace, b.Policy.Namespace),
		)
	})
	exempting, described := exemptionsOf(cs), descriptionsOf(cs)
	rules := make([]rule.Rule, len(all))
	for i, r := range all {
		rules[i] = *r
		rules[i].Exemptions = exempting.from(r)
		rules[i].Description = described[r.Policy]
	}
	return rules
}

// Access returns the rules of all authorization policies, in the order of evaluation.
func Access(cs []Compiled) []*authz.Rule {
	var rules []*authz.Rule
	for _, c := range cs {
		rules = append(rules, c.Access...)
	}
	authz.Sort(rules)
	return rules
}

// Duplicates returns a warning for every policy with the kind, namespace and name of one before it.
// All of them are enforced, although a cluster would keep only one.
func Duplicates(cs []Compiled) []rule.Problem {
	var problems []rule.Problem
	first := make(map[usher.PolicyRef]int, len(cs))
	for i := range cs {
		c := &cs[i]
		before, again := first[c.Ref]
		if !again || c.Ref.Name == "" {
			first[c.Ref] = i
			continue
		}
		what := "another policy has the same kind and name"
		if other := cs[before].Policy.Position(""); other.File != "" {
			what += fmt.Sprintf(" (%s:%d)", other.File, other.Line)
		}
		problems = append(problems, c.Place(rule.Problem{
			Severity: rule.Warning, Field: "metadata.name", What: what,
			Do: "rename one of them: in a cluster the one that is applied last replaces the other",
		}))
	}
	return problems
}
