// Package guard decides writes of policies themselves: it renders their templates when
// they are mutated, and refuses what does not compile when they are validated. Writes of
// everything else, and writes that do not change what a policy says, are none of its
// business.
//
// Policies are objects too: unless the guard has an answer of its own, the policies that
// select them decide on.
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
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/authz"
)

// Options say what else is asked about authorization policies. The zero value works, and
// asks nothing else.
type Options struct {
	// Judge returns what decides requests to authorize by rules. A Deny that is written is
	// tried on the requests without which a cluster cannot be operated; nil does not try it.
	Judge func([]*authz.Rule) usher.Decider
	// May tells whether a user may do something: who writes a policy needs the rights that
	// [RightsOf] returns. Nil does not ask.
	May Asker
	// Places tells the resources of kinds; nil knows none.
	Places Places
	// Check returns what else keeps a policy from being written. The old one is nil if there is none.
	// Nil checks nothing else.
	Check func(policy, old api.Object) []rule.Problem
	// Proofs makes and checks the proofs of policies that count only with one; nil does neither.
	Proofs Proofs
	// Compile says where policies are compiled.
	Compile compile.Options
	// Trial returns what is found when a policy that compiles is tried; nil does not try it.
	Trial func(context.Context, compile.Compiled) []rule.Problem
	// KeepSpecs leaves specs as they are written. Otherwise renderedCue and the defaults of
	// templates are filled in, as kinitiras does.
	KeepSpecs bool
	// Now is time.Now if nil.
	Now func() time.Time
}

// Wrap returns a Decider that decides writes of policies and asks next about the rest.
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
	switch {
	case err != nil || d.Verdict == usher.Deny || !g.needsProof(r):
		return d, err
	case r.Phase == usher.Mutate:
		return g.prove(ctx, r, d)
	}
	return g.proven(ctx, r, d)
}

// decide decides without proofs.
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

// unchanged decides what does not change what a policy says.
func (g *guard) unchanged(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if d, refused := g.confirmation(ctx, r); refused {
		return d, nil
	}
	return g.next.Decide(ctx, r)
}

// mutate renders templates, and notes when a policy that has to be confirmed was written. A
// policy that it changes is not changed by other policies.
func (g *guard) mutate(ctx context.Context, r *usher.Request, policy api.Policy) (usher.Decision, error) {
	rendered := render(policy.Object)
	ref := compile.Ref(policy.Object)
	if stamps := g.stamp(policy.Object); len(stamps) > 0 {
		d := usher.Patched(stamps...)
		d.Findings = []usher.Finding{{Policy: ref, Written: true, Rule: "metadata.annotations", Outcome: usher.Changed, Patch: stamps}}
		return d, nil
	}
	if errs := rule.Errors(rendered.problems); len(errs) > 0 {
		d := refused(ref, errs)
		d.Code = http.StatusInternalServerError
		return d, nil
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

// validate compiles the policy. What only the API server can have put up with, such as
// fields that the kind does not have, it has dropped or warned of itself.
func (g *guard) validate(ctx context.Context, r *usher.Request, policy api.Policy) (usher.Decision, error) {
	policy.Unknown, policy.Duplicate = nil, nil
	if errs := g.check(r, policy); len(errs) > 0 {
		d := refused(compile.Ref(policy.Object), errs)
		d.Code, d.Reason = http.StatusForbidden, d.Message
		return d, nil
	}
	compiled := g.options.Compile.Policy(ctx, policy)
	problems := rule.Written(compiled.Problems)
	var warnings []string
	for _, p := range problems {
		if p.Severity == rule.Warning {
			warnings = append(warnings, sentence(p))
		}
	}
	if errs := rule.Errors(problems); len(errs) > 0 {
		d := refused(compiled.Ref, errs)
		d.Code, d.Reason, d.Warnings = http.StatusForbidden, d.Message, warnings
		if compiled.Pending() {
			d.Code = http.StatusServiceUnavailable
		}
		return d, nil
	}
	for _, p := range g.try(ctx, compiled) {
		warnings = append(warnings, sentence(p))
	}
	more, d, refused := g.authorize(ctx, r, compiled)
	warnings = append(warnings, more...)
	if refused {
		d.Warnings = warnings
		return d, nil
	}
	d, err := g.next.Decide(ctx, r)
	if err != nil {
		return usher.Decision{}, err
	}
	d.Warnings = slices.Concat(warnings, d.Warnings)
	return d, nil
}

// check asks whether the policy may be written at all.
func (g *guard) check(r *usher.Request, policy api.Policy) []rule.Problem {
	if g.options.Check == nil {
		return nil
	}
	return g.options.Check(policy.Object, oldPolicy(r))
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

// longestTrial is what trying a policy may take.
const longestTrial = 100 * time.Millisecond

// try tries a policy on sample objects. Its findings are warnings.
func (g *guard) try(ctx context.Context, c compile.Compiled) []rule.Problem {
	if g.options.Trial == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestTrial)
	defer cancel()
	return g.options.Trial(ctx, c)
}

// writesPolicy reports whether r creates or changes a policy.
func writesPolicy(r *usher.Request) bool {
	if r.Phase != usher.Mutate && r.Phase != usher.Validate || r.Subresource != "" || r.Object == nil {
		return false
	}
	if r.Operation != usher.Create && r.Operation != usher.Update {
		return false
	}
	return api.IsPolicy(kindOf(r))
}

// kindOf is the kind of the object that is written, which the request itself may leave
// out.
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

// sameSpecTree reports whether an update leaves the spec as it is, to the letter. It does
// not look inside: a policy that cannot even be decoded can still lose a finalizer.
func sameSpecTree(r *usher.Request) bool {
	object, err := r.Object.Tree()
	if err != nil || r.OldObject == nil {
		return false
	}
	old, err := r.OldObject.Tree()
	return err == nil && reflect.DeepEqual(object["spec"], old["spec"])
}

// sameSpec reports whether the old policy says the same as object.
func sameSpec(object api.Object, r *usher.Request) bool {
	old := oldPolicy(r)
	return old != nil && proof.Same(object, old)
}

// decode returns the policy that is written. Its name may still have to be generated, and
// its namespace may be that of the request only.
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
		findings[i] = usher.Finding{Policy: policy, Written: true, Rule: p.Field, Outcome: usher.Rejected, Message: sentences[i]}
	}
	d := usher.Denied("%s: %s", policy, strings.Join(sentences, "; "))
	d.Findings = findings
	return d
}

// sentence is a problem without what its reader knows already: the policy and the severity.
func sentence(p rule.Problem) string {
	s := p.What
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Do != "" {
		s = fmt.Sprintf("%s (%s)", s, p.Do)
	}
	return s
}
