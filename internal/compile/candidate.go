package compile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Candidate is what would be in force by a policy candidate.
type Candidate struct {
	// Policies would be in force; none if a policy is removed.
	Policies []Compiled
	// Replaces is the policy that would not be in force as it is; zero if the candidate names none.
	Replaces usher.PolicyRef
}

// Authorizes reports whether the candidate is about authorization policies, among others.
func (c *Candidate) Authorizes() bool {
	replaced, _ := api.KindCalled(c.Replaces.Kind)
	return replaced.Authorizes || slices.ContainsFunc(c.Policies, func(p Compiled) bool {
		kind, _ := api.KindOf(p.Policy.Object)
		return kind.Authorizes
	})
}

// candidate compiles what a candidate embeds, as if it were written by itself.
func (o Options) candidate(ctx context.Context, p api.Policy, spec *usherv1alpha1.PolicyCandidateSpec) (*Candidate, []rule.Problem) {
	c, of := &Candidate{}, Ref(p.Object)
	var problems []rule.Problem
	if replaced := spec.Replaces; replaced != nil {
		ref, problem := Replaces(of, replaced)
		if c.Replaces = ref; problem != (rule.Problem{}) {
			problems = append(problems, problem)
		}
	}
	named := map[usher.PolicyRef]bool{}
	for i := range spec.Policies {
		field := fmt.Sprintf("spec.policies[%d]", i)
		refuse := func(what, do string) {
			problems = append(problems, rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do})
		}
		policy, err := embedded(of, &spec.Policies[i])
		if err != nil {
			refuse(err.Error(), "write a policy that Usher enforces, with apiVersion, kind, metadata and spec")
			continue
		}
		policy.Locate = func(at string, line, column int) api.Position { return p.PositionIn(Within(field, at), line, column) }
		kind, _ := api.KindOf(policy.Object)
		if what, do := Unfit(of, &kind, policy.Object.GetNamespace()); what != "" {
			refuse(what, do)
			continue
		}
		compiled := o.compile(ctx, policy)
		compiled.Problems = append(compiled.Problems, compiled.asCandidate(p)...)
		compiled.Problems = append(compiled.Problems, asWritten(ctx, policy, compiled.Problems)...)
		for _, problem := range compiled.Problems {
			problem.Field = Within(field, problem.Field)
			problems = append(problems, problem)
		}
		if named[compiled.Ref] {
			refuse("it embeds "+compiled.Ref.String()+" twice", "remove one of them")
		}
		named[compiled.Ref] = true
		c.Policies = append(c.Policies, compiled)
	}
	if c.Replaces != (usher.PolicyRef{}) && !spec.Remove && !named[c.Replaces] && len(problems) == 0 {
		problems = append(problems, rule.Problem{
			Severity: rule.Error, Field: "spec.replaces", What: "none of spec.policies is " + c.Replaces.String() + ", which it would replace",
			Do: "give one of them this name, so that exemptions and params apply to it, or write remove: true",
		})
	}
	return c, problems
}

// Within returns the path of a field of an embedded policy.
func Within(policy, field string) string {
	if policy == "" || field == "" {
		return policy + field
	}
	return policy + "." + field
}

// Parts returns the policies that a policy consists of, itself or those that it embeds, with the paths of
// their fields.
func (c *Compiled) Parts() (policies []Compiled, fields []string) {
	if c.Candidate == nil {
		return []Compiled{*c}, []string{""}
	}
	for i := range c.Candidate.Policies {
		fields = append(fields, fmt.Sprintf("spec.policies[%d]", i))
	}
	return c.Candidate.Policies, fields
}

// Replaces returns the policy that a candidate would replace, or what is wrong with the reference.
func Replaces(of usher.PolicyRef, r *usherv1alpha1.CandidateRef) (usher.PolicyRef, rule.Problem) {
	ref := usher.PolicyRef{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	p := rule.Problem{Severity: rule.Error, Field: "spec.replaces.kind"}
	kind, ok := api.KindCalled(r.Kind)
	switch {
	case !ok || kind.Candidate:
		p.What, p.Do = fmt.Sprintf("%q is not a kind of policy", r.Kind), "write one such as ClusterObjectPolicy"
	case of.Namespace != "" && (!kind.Namespaced || r.Namespace != "" && r.Namespace != of.Namespace):
		p.What, p.Do = "a PolicyCandidate replaces policies of its own namespace", "write a ClusterPolicyCandidate"
	case kind.Namespaced && of.Namespace == "" && r.Namespace == "":
		p.Field, p.What, p.Do = "spec.replaces.namespace", "the policy has a namespace", "write it"
	case !kind.Namespaced && r.Namespace != "":
		p.Field, p.What, p.Do = "spec.replaces.namespace", "policies of this kind have no namespace", "remove it"
	default:
		if kind.Namespaced && of.Namespace != "" {
			ref.Namespace = of.Namespace
		}
		return ref, rule.Problem{}
	}
	return ref, p
}

// embedded decodes an embedded policy, in the namespace of a candidate that has one.
func embedded(of usher.PolicyRef, raw *runtime.RawExtension) (api.Policy, error) {
	policy, err := api.Decode(raw.Raw)
	switch {
	case errors.Is(err, api.ErrUnknownKind):
		return policy, errors.New("it is not of a kind that Usher enforces")
	case err != nil:
		return policy, err
	}
	object := policy.Object
	if kind, _ := api.KindOf(object); kind.Namespaced && of.Namespace != "" && object.GetNamespace() == "" {
		object.SetNamespace(of.Namespace)
	}
	// What API servers set of policies that are stored has no meaning here.
	object.SetUID("")
	object.SetGeneration(0)
	object.SetDeletionTimestamp(nil)
	return policy, nil
}

// Unfit returns why a policy of a kind, in a namespace, cannot be part of a candidate.
func Unfit(of usher.PolicyRef, kind *api.Kind, namespace string) (what, do string) {
	switch {
	case kind.Candidate:
		return "a candidate embeds no candidates", "embed the policies themselves"
	case of.Namespace != "" && (!kind.Namespaced || namespace != of.Namespace):
		return "a PolicyCandidate is for policies of its own namespace", "write a ClusterPolicyCandidate"
	}
	return "", ""
}

// asCandidate has an authorization policy decide as one that is confirmed, and returns what is wrong with one that
// only files can have in force.
func (c *Compiled) asCandidate(of api.Policy) []rule.Problem {
	if len(c.Access) == 0 {
		return nil
	}
	// All its rules have it in common.
	c.Access[0].Policy.Confirm = time.Time{}
	if c.Access[0].Policy.Tier == authz.Safeguard && of.Object.GetUID() != "" && of.Position("").File == "" {
		return []rule.Problem{authorization.NotSafeguard()}
	}
	return nil
}

// asWritten returns what API servers would refuse of a policy of kinitiras that is written: in files it
// is enforced nevertheless.
func asWritten(ctx context.Context, p api.Policy, problems []rule.Problem) []rule.Problem {
	kind, ok := api.KindOf(p.Object)
	if !ok || kind.Foreign || kind.Group == usherv1alpha1.GroupVersion.Group {
		return nil
	}
	return againstDefinition(ctx, &kind, p, problems)
}
