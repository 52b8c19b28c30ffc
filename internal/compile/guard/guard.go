// Package guard decides writes of policies themselves: it renders their templates in the mutating
// phase, and rejects policies that do not compile in the validating phase. It does not decide on
// other objects, or on writes that do not change what a policy says.
//
// Policies are objects too: unless the guard decides a write, the policies that select the object
// do.
package guard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Options configure the additional checks of policies. The zero value works and adds none.
type Options struct {
	// Judge returns a decider that authorizes requests by rules. The guard uses it to evaluate a
	// Deny on the requests without which a cluster cannot be operated; nil disables that check.
	Judge func([]*authz.Rule) usher.Decider
	// May answers whether a user is allowed a request: the writer of a policy needs the rights that
	// [RightsOf] returns. Nil disables that check.
	May Asker
	// Places finds the resources of kinds; nil finds none.
	Places Places
	// Check returns further reasons to reject a policy, such as quotas. The old policy is nil on
	// creation. Nil means no further checks.
	Check func(policy, old api.Object) []rule.Problem
	// Admit is Check, and counts the policy from now on. It is called for writes that nothing else refuses,
	// except dry runs. Nil means no further checks.
	Admit func(policy, old api.Object) []rule.Problem
	// Proofs makes and checks the proofs of policies that count only with one; nil does neither.
	Proofs Proofs
	// Compile says where policies are compiled.
	Compile compile.Options
	// Trial tries a policy that compiles on sample objects and returns what it finds; nil disables
	// that.
	Trial func(context.Context, compile.Compiled) []rule.Problem
	// Existing returns what else to warn of when a policy of the cluster is written: which objects that
	// exist it refuses. It is not called for policies with errors, nor for suspended ones; nil warns of
	// nothing.
	Existing func(context.Context, compile.Compiled) []rule.Problem
	// Facts resolves the objects that policies read by name: who writes a policy, and may read them, is warned of
	// those that do not exist. Nil warns of none.
	Facts fact.Resolver
	// Unserved says why authorization policies have no effect here; "" if they do. Who writes one is warned.
	Unserved string
	// LongestExemption limits how far ahead an exemption may end when it is written; 0 means no
	// limit.
	LongestExemption time.Duration
	// KeepSpecs leaves specs as they are written. Otherwise renderedCue and the defaults of
	// templates are filled in, as kinitiras does.
	KeepSpecs bool
	// Now is time.Now if nil.
	Now func() time.Time
}

// Wrap returns a Decider that decides writes of policies and passes other requests to next.
func Wrap(next usher.Decider, o Options) usher.Decider {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &guard{next: next, options: o}
}

type guard struct {
	next    usher.Decider
	options Options
}

// Decide implements [usher.Decider].
func (g *guard) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	d, err := g.decide(ctx, r)
	if err == nil && d.Verdict != usher.Deny && r.Phase == usher.Mutate && writesPolicy(r) {
		d, err = g.sign(r, d)
	}
	switch {
	case err != nil || d.Verdict == usher.Deny || !g.needsProof(r):
		return d, err
	case r.Phase == usher.Mutate:
		return g.prove(ctx, r, d)
	}
	return g.proven(ctx, r, d)
}

// decide decides the request, without regard to proofs.
func (g *guard) decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if d, decided := g.deletion(ctx, r); decided {
		return d, nil
	}
	if !writesPolicy(r) || sameSpecTree(r) {
		return g.unchanged(ctx, r)
	}
	policy, err := decode(r)
	if err != nil {
		return undecodable(r, err), nil
	}
	if sameSpec(policy.Object, r) {
		return g.unchanged(ctx, r)
	}
	if r.Phase == usher.Mutate {
		return g.mutate(ctx, r, policy)
	}
	return g.validate(ctx, r, policy)
}

// unchanged decides a write that does not change what a policy says. It warns of an annotation that does not do what it
// seems to.
func (g *guard) unchanged(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if d, refused := g.confirmation(ctx, r); refused {
		return d, nil
	}
	d, err := g.judged(ctx, r)
	if err != nil || r.Phase != usher.Validate || !writesPolicy(r) {
		return d, err
	}
	if policy, err := decode(r); err == nil {
		d.Warnings = slices.Concat(d.Warnings, warningsOf(compile.NotSuspending(policy.Object)))
	}
	return d, nil
}

// mutate renders templates, and records when a policy that has to be confirmed was written. If it
// changes the policy, other policies do not change it.
func (g *guard) mutate(ctx context.Context, r *usher.Request, policy api.Policy) (usher.Decision, error) {
	rendered := render(policy.Object)
	ref := compile.Ref(policy.Object)
	if api.Suspended(policy.Object) {
		// It need not compile, and is written again when it is to decide something.
		return g.others(ctx, r)
	}
	if stamps := g.stamp(policy.Object); len(stamps) > 0 {
		d := usher.Patched(stamps...)
		d.Findings = []usher.Finding{{Policy: ref, Written: true, Rule: "metadata.annotations", Outcome: usher.Changed, Patch: stamps}}
		return d, nil
	}
	if errs := rule.Errors(rendered.problems); len(errs) > 0 {
		return coded(refused(ref, errs), http.StatusInternalServerError), nil
	}
	if rendered.templates == 0 || g.options.KeepSpecs {
		return g.next.Decide(ctx, r)
	}
	d := usher.Patched(rendered.patch...)
	if len(d.Patch) > 0 {
		d.Findings = []usher.Finding{{Policy: ref, Written: true, Rule: "spec", Outcome: usher.Changed, Patch: d.Patch}}
	}
	return d, nil
}

// validate compiles the policy. It ignores what the API server has handled already: the API server
// drops unknown fields or warns about them.
func (g *guard) validate(ctx context.Context, r *usher.Request, policy api.Policy) (usher.Decision, error) {
	policy.Unknown, policy.Duplicate = nil, nil
	// One that is being deleted compiles to nothing: its writer needs the same rights as before.
	policy.Object.SetDeletionTimestamp(nil)
	if d, refused := exceeds(g.options.Check, r, policy); refused {
		return d, nil
	}
	compiled := g.options.Compile.Policy(ctx, policy)
	problems := rule.Written(compiled.Problems)
	if len(rule.Errors(problems)) == 0 {
		unserved := func(part compile.Compiled) []rule.Problem { return compile.Unserved(g.options.Unserved, part) }
		problems = rule.Written(slices.Concat(problems, eachPart(compiled, unscaled), eachPart(compiled, unserved), g.try(ctx, compiled)))
	}
	if api.Suspended(policy.Object) {
		problems = whileSuspended(problems)
	}
	warnings := warningsOf(problems)
	if errs := rule.Errors(problems); len(errs) > 0 {
		d := coded(refused(compiled.Ref, errs), refusal{unknown: compiled.Pending(), invalid: true}.code())
		d.Warnings = warnings
		return d, nil
	}
	more, d, refused := g.authorize(ctx, r, compiled)
	warnings = slices.Concat(warnings, more, ended(policy.Object, g.options.Now()))
	if refused {
		d.Warnings = warnings
		return d, nil
	}
	d, err := g.others(ctx, r)
	if err != nil {
		return usher.Decision{}, err
	}
	if d.Verdict == usher.Deny && api.Suspended(policy.Object) {
		// Nothing is suspended.
		warnings = nil
	}
	d.Warnings = slices.Concat(warnings, d.Warnings)
	if d.Verdict != usher.Deny && !r.DryRun {
		if d, refused := exceeds(g.options.Admit, r, policy); refused {
			return d, nil
		}
	}
	if d.Verdict != usher.Deny {
		d.Warnings = append(d.Warnings, warningsOf(slices.Concat(g.absent(ctx, r.User, compiled), g.existing(ctx, compiled)))...)
	}
	return d, nil
}

// unscaled warns of an object policy that does not see how the replicas that it is about change. It says nothing of
// kinitiras' kinds.
func unscaled(c compile.Compiled) []rule.Problem {
	if c.Object == nil {
		return nil
	}
	return compile.Unscaled([]compile.Compiled{c})
}

// existing returns what the policy says of objects that exist. Who writes policies of a namespace may
// not read them.
func (g *guard) existing(ctx context.Context, c compile.Compiled) []rule.Problem {
	if g.options.Existing == nil || c.Ref.Namespace != "" || api.Suspended(c.Policy.Object) {
		return nil
	}
	return g.options.Existing(ctx, c)
}

// warningsOf returns the warnings among problems, for users.
func warningsOf(problems []rule.Problem) []string {
	var warnings []string
	for _, p := range problems {
		if p.Severity == rule.Warning {
			warnings = append(warnings, sentence(p))
		}
	}
	return warnings
}

// exceeds returns the decision of a check of the policy, if it refuses the policy.
func exceeds(check func(policy, old api.Object) []rule.Problem, r *usher.Request, policy api.Policy) (d usher.Decision, refuses bool) {
	if check == nil {
		return usher.Decision{}, false
	}
	errs := check(policy.Object, oldPolicy(r))
	if len(errs) == 0 {
		return usher.Decision{}, false
	}
	return coded(refused(compile.Ref(policy.Object), errs), http.StatusForbidden), true
}

// oldPolicy is the policy that an update changes; nil if there is none.
func oldPolicy(r *usher.Request) api.Object {
	if r.OldObject == nil {
		return nil
	}
	raw, err := r.OldObject.Raw()
	if err != nil || raw == nil {
		return nil
	}
	old, err := api.Decode(raw)
	if err != nil {
		return nil
	}
	return old.Object
}

// try tries a policy on sample objects.
func (g *guard) try(ctx context.Context, c compile.Compiled) []rule.Problem {
	if g.options.Trial == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compile.LongestTrial)
	defer cancel()
	problems := eachPart(c, func(p compile.Compiled) []rule.Problem { return g.options.Trial(ctx, p) })
	if c.Candidate != nil {
		problems = append(problems, g.options.Trial(ctx, c)...)
	}
	if api.Suspended(c.Policy.Object) {
		// Who turns it off is in a hurry: its effects are told when it is put into force again.
		return rule.Errors(rule.Written(problems))
	}
	return problems
}

// writesPolicy reports whether r creates or updates a policy.
func writesPolicy(r *usher.Request) bool {
	if r.Phase != usher.Mutate && r.Phase != usher.Validate || r.Subresource != "" || r.Object == nil {
		return false
	}
	if r.Operation != usher.Create && r.Operation != usher.Update {
		return false
	}
	return api.IsPolicy(kindOf(r))
}

// kindOf returns the kind of the written object, which the request itself may omit.
func kindOf(r *usher.Request) schema.GroupVersionKind {
	if !r.Kind.Empty() {
		return r.Kind
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return schema.GroupVersionKind{}
	}
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// sameSpecTree reports whether an update leaves the spec unchanged, and what suspends a policy. It compares undecoded trees:
// finalizers can be removed even from a policy that cannot be decoded.
func sameSpecTree(r *usher.Request) bool {
	object, err := r.Object.Tree()
	if err != nil || r.OldObject == nil {
		return false
	}
	old, err := r.OldObject.Tree()
	return err == nil && reflect.DeepEqual(object["spec"], old["spec"]) &&
		annotationIn(object, api.AnnotationSuspend) == annotationIn(old, api.AnnotationSuspend)
}

// sameSpec reports whether the old policy says the same as object.
func sameSpec(object api.Object, r *usher.Request) bool {
	old := oldPolicy(r)
	return old != nil && proof.Same(object, old)
}

// decode returns the written policy. Its name may not be generated yet, and only the request may
// have its namespace.
func decode(r *usher.Request) (api.Policy, error) {
	policy, err := decodeObject(r, r.Object)
	if err == nil && policy.Object.GetName() == "" {
		policy.Object.SetName(policy.Object.GetGenerateName())
	}
	return policy, err
}

// decodeObject returns the policy in an object of the request.
func decodeObject(r *usher.Request, o *usher.Object) (api.Policy, error) {
	raw, err := o.Raw()
	if err != nil {
		return api.Policy{}, err
	}
	policy, err := api.Decode(raw)
	if err != nil {
		return api.Policy{}, err
	}
	object := policy.Object
	object.SetName(cmp.Or(object.GetName(), r.Name))
	object.SetNamespace(cmp.Or(object.GetNamespace(), r.Namespace))
	return policy, nil
}

func undecodable(r *usher.Request, err error) usher.Decision {
	d := usher.Denied("the policy cannot be read: %v", err)
	d.Code, d.Reason = http.StatusBadRequest, string(metav1.StatusReasonBadRequest)
	d.Findings = []usher.Finding{{
		Policy:  usher.PolicyRef{Kind: r.Kind.Kind, Namespace: r.Namespace, Name: r.Name},
		Written: true, Outcome: usher.Rejected, Message: d.Message,
	}}
	return d
}

// refused denies a policy and names every problem.
func refused(policy usher.PolicyRef, errs []rule.Problem) usher.Decision {
	sentences := make([]string, len(errs))
	findings := make([]usher.Finding, len(errs))
	for i, p := range errs {
		sentences[i] = sentence(p)
		findings[i] = usher.Finding{Policy: policy, Written: true, Rule: p.Field, Outcome: usher.Rejected, Message: withAdvice(p)}
	}
	d := usher.Denied("%s: %s", policy, strings.Join(sentences, "; "))
	d.Findings = findings
	return d
}

// sentence returns a problem without the policy and the severity, which the message has already.
func sentence(p rule.Problem) string {
	if p.Field != "" {
		return p.Field + ": " + withAdvice(p)
	}
	return withAdvice(p)
}

// withAdvice returns the text of a problem, and what to do about it.
func withAdvice(p rule.Problem) string {
	if p.Do != "" {
		return fmt.Sprintf("%s (%s)", p.Text(), p.Do)
	}
	return p.Text()
}
