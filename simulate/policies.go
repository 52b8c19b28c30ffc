package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
)

// policySources are the admission policies of a chain.
type policySources struct {
	mutating           generic.Source[mutatingHook]
	validating         generic.Source[validatingHook]
	mutatingPolicies   listers.MutatingAdmissionPolicyLister
	validatingPolicies listers.ValidatingAdmissionPolicyLister
}

func (s *policySources) listers(f informers.SharedInformerFactory) {
	all := f.Admissionregistration().V1()
	s.mutatingPolicies = all.MutatingAdmissionPolicies().Lister()
	s.validatingPolicies = all.ValidatingAdmissionPolicies().Lister()
}

// A sorted source has its policies in order of their names, and their bindings as well. An
// API server has them in no particular order.
type sorted[P, B named, E generic.Evaluator] struct {
	generic.Source[generic.PolicyHook[P, B, E]]
}

type named interface {
	runtime.Object
	GetName() string
}

// Hooks implements [generic.Source].
func (s sorted[P, B, E]) Hooks() []generic.PolicyHook[P, B, E] {
	from := s.Source.Hooks()
	if from == nil {
		return nil
	}
	hooks := slices.Clone(from)
	for i := range hooks {
		hooks[i].Bindings = slices.SortedFunc(slices.Values(hooks[i].Bindings), func(a, b B) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	slices.SortFunc(hooks, func(a, b generic.PolicyHook[P, B, E]) int {
		return cmp.Compare(a.Policy.GetName(), b.Policy.GetName())
	})
	return hooks
}

// A policyEvent is one evaluation of a policy: for one binding and one parameter.
type policyEvent struct {
	policy string
	param  string
	// skip says which condition kept it from going on.
	skip   string
	checks []Check
	// failed is why it has no result.
	failed error
	start  time.Time
	took   time.Duration
	// denied are the validations that object.
	denied []validating.PolicyDecision
	// before and after are the object around the mutations; nil if there were none.
	before, after runtime.Object
}

// newEvent notes that a policy is being evaluated.
func (r *run) newEvent(policy string, param runtime.Object) *policyEvent {
	e := &policyEvent{policy: policy, param: paramText(param), start: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policies = append(r.policies, e)
	return e
}

// event is the evaluation under way.
func (r *run) event() *policyEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.policies) == 0 {
		return &policyEvent{}
	}
	return r.policies[len(r.policies)-1]
}

func paramText(param runtime.Object) string {
	if param == nil {
		return ""
	}
	if object, err := meta.Accessor(param); err == nil {
		if object.GetNamespace() != "" {
			return object.GetNamespace() + "/" + object.GetName()
		}
		return object.GetName()
	}
	return ""
}

// A conditioned matcher evaluates the match conditions of a policy, and tells the run
// which of them decided.
type conditioned struct {
	// matcher is nil if there are no conditions.
	matcher    matchconditions.Matcher
	conditions []admissionv1.MatchCondition
	policy     string
}

// Match implements [matchconditions.Matcher].
func (c *conditioned) Match(ctx context.Context, a *admission.VersionedAttributes, param runtime.Object, authz authorizer.Authorizer) matchconditions.MatchResult {
	if c.matcher == nil {
		return matchconditions.MatchResult{Matches: true}
	}
	result := c.matcher.Match(ctx, a, param, authz)
	r := runOf(ctx)
	e := r.event()
	switch {
	case result.Error != nil:
		e.failed = result.Error
	case !result.Matches && result.FailedConditionName == "":
		e.skip = "matchConditions have no value, and failurePolicy is Ignore"
	case !result.Matches:
		e.skip = fmt.Sprintf("matchConditions[%s] is false", result.FailedConditionName)
		i := slices.IndexFunc(c.conditions, func(m admissionv1.MatchCondition) bool { return m.Name == result.FailedConditionName })
		if i >= 0 {
			e.checks = append(e.checks, Check{
				Name: fmt.Sprintf("matchConditions[%s]", result.FailedConditionName), Expression: c.conditions[i].Expression, Value: "false",
			})
		}
	}
	return result
}

// A pair is a policy with one of its bindings, as far as the steps tell of it.
type pair struct {
	plugin, policy, binding string

	constraints *admissionv1.MatchResources
	resources   *admissionv1.MatchResources
	ref         *admissionv1.ParamRef
	kind        *admissionv1.ParamKind
	configError error
}

func (p *pair) step() Step {
	s := Step{Plugin: p.plugin, Name: p.policy, Outcome: Skipped}
	if p.binding != "" {
		s.Name += "/" + p.binding
	}
	return s
}

// matching says whether a policy and its binding are for a request, with the step if they
// are not.
func (c *chain) matching(a admission.Attributes, o admission.ObjectInterfaces, p *pair) (Step, verdict) {
	s := p.step()
	if p.constraints == nil {
		s.Why = "the policy has no matchConstraints"
		return s, verdict{}
	}
	found := c.judge(a, o, policyCriteria(p.constraints))
	s.Why = found.why
	if !found.matched || found.err != nil {
		return s, found
	}
	if p.resources != nil {
		bound := c.judge(a, o, policyCriteria(p.resources))
		if !bound.matched || bound.err != nil {
			s.Why = "binding: " + bound.why
			return s, bound
		}
	}
	if found.kind != a.GetKind() {
		s.SentAs = kindText(found.kind)
	}
	return s, found
}

// unevaluated completes the step of a policy that matched and was not evaluated.
func (p *pair) unevaluated(s Step, err error) Step {
	switch {
	case err != nil && p.mentioned(err):
		status := statusOf(err)
		s.Outcome, s.Message, s.Code = Failed, status.Message, status.Code
	case p.configError != nil:
		s.Outcome, s.Message = Ignored, p.configError.Error()
	case p.kind != nil && p.ref != nil:
		s.Why = fmt.Sprintf("there is no %s that the binding refers to", p.kind.Kind)
	case err != nil:
		s.Outcome, s.Why = Unreached, "the request had ended"
	default:
		s.Why = "there is nothing to evaluate"
	}
	return s
}

// mentioned reports whether an error of the plugin is about p: its texts name both.
func (p *pair) mentioned(err error) bool {
	status := statusOf(err)
	for _, name := range []string{"'" + p.policy + "'", "\"" + p.policy + "\""} {
		if strings.Contains(status.Message, name) {
			return true
		}
	}
	return false
}

// unbound are the policies that no binding puts into force.
func unbound[P named](plugin string, all []P, used map[string]bool) []Step {
	var steps []Step
	for _, p := range all {
		if !used[p.GetName()] {
			steps = append(steps, Step{
				Plugin: plugin, Name: p.GetName(), Outcome: Skipped, Why: "no binding refers to it",
			})
		}
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Name, b.Name) })
	return steps
}

func everyPolicy[P any](list func(labels.Selector) ([]P, error)) []P {
	// A lister of an informer does not fail.
	all, _ := list(labels.Everything())
	return all
}

// converters merge apply configurations: those of built-in kinds by their schemas, others
// as if every list were one value.
type converters struct{ builtIn, deduced managedfields.TypeConverter }
