package simulate

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

type mutatingHook = generic.PolicyHook[*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding, mutating.PolicyEvaluator]

// mutatingPolicies is the plugin for MutatingAdmissionPolicies: the API server's, whose
// policies tell the run what they do.
type mutatingPolicies struct {
	*generic.Plugin[mutatingHook]
}

func (c *chain) newMutatingPolicies() admission.Interface {
	source := func(f informers.SharedInformerFactory, _ kubernetes.Interface, params dynamic.Interface, mapper meta.RESTMapper) generic.Source[mutatingHook] {
		api := f.Admissionregistration().V1()
		c.policies.mutating = sorted[*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding, mutating.PolicyEvaluator]{generic.NewPolicySource(
			api.MutatingAdmissionPolicies().Informer(), api.MutatingAdmissionPolicyBindings().Informer(),
			mutating.NewMutatingAdmissionPolicyAccessor, mutating.NewMutatingAdmissionPolicyBindingAccessor,
			compileMutating, f, params, mapper,
		)}
		return c.policies.mutating
	}
	dispatcher := func(a authorizer.Authorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[mutatingHook] {
		return mutating.NewDispatcher(a, m, newConverters())
	}
	// There is nothing to change about an object that is deleted.
	handler := admission.NewHandler(admission.Create, admission.Update, admission.Connect)
	plugin := &mutatingPolicies{generic.NewPlugin(handler, source, dispatcher)}
	plugin.SetEnabled(true)
	return plugin
}

// Admit implements [admission.MutationInterface].
func (p *mutatingPolicies) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Dispatch(ctx, a, o)
}

func newConverters() patch.TypeConverterManager {
	return &converters{applyconfigurations.NewTypeConverter(scheme.Scheme), managedfields.NewDeducedTypeConverter()}
}

// GetTypeConverter implements [patch.TypeConverterManager].
func (c *converters) GetTypeConverter(kind schema.GroupVersionKind) managedfields.TypeConverter {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	if _, err := c.builtIn.ObjectToTyped(empty); err == nil {
		return c.builtIn
	}
	return c.deduced
}

// Run implements [patch.TypeConverterManager].
func (c *converters) Run(context.Context) {}

// compileMutating compiles a policy as an API server does. Its matcher is never nil: it is
// asked once for each evaluation, which tells them apart.
func compileMutating(p *admissionv1.MutatingAdmissionPolicy) mutating.PolicyEvaluator {
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return mutating.PolicyEvaluator{Error: err}
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	evaluator := mutating.PolicyEvaluator{CompositedCompiler: compiler}
	evaluator.Matcher = &evaluation{conditionsOf(compiler, p.Spec.MatchConditions, declared, p.Spec.FailurePolicy, p.Name), p.Name}
	declared.HasPatchTypes = true
	for i, m := range p.Spec.Mutations {
		var patcher patch.Patcher
		expression := ""
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			expression = m.JSONPatch.Expression
			patcher = patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: expression}, declared, environment.StoredExpressions))
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			expression = m.ApplyConfiguration.Expression
			patcher = patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: expression}, declared, environment.StoredExpressions))
		default:
			continue
		}
		evaluator.Mutators = append(evaluator.Mutators, &patcherAt{patcher, fmt.Sprintf("mutations[%d]", i), expression})
	}
	return evaluator
}

// An evaluation begins when the conditions of a policy are asked.
type evaluation struct {
	matchconditions.Matcher

	policy string
}

// Match implements [matchconditions.Matcher].
func (e *evaluation) Match(ctx context.Context, a *admission.VersionedAttributes, param runtime.Object, authz authorizer.Authorizer) matchconditions.MatchResult {
	runOf(ctx).newEvent(e.policy, param)
	return e.Matcher.Match(ctx, a, param, authz)
}

// A patcherAt is one mutation of a policy.
type patcherAt struct {
	patch.Patcher

	place, expression string
}

// Patch implements [patch.Patcher].
func (p *patcherAt) Patch(ctx context.Context, request patch.Request, budget int64) (runtime.Object, error) {
	e := runOf(ctx).event()
	before := request.VersionedAttributes.VersionedObject
	if e.before == nil {
		e.before = before.DeepCopyObject()
	}
	after, err := p.Patcher.Patch(ctx, request, budget)
	e.took = time.Since(e.start)
	check := Check{Name: p.place, Expression: p.expression, Value: "applied"}
	if err != nil {
		check.Value, check.Message = "error", err.Error()
		e.failed = err
	} else {
		e.after = after.DeepCopyObject()
	}
	e.checks = append(e.checks, check)
	return after, err
}

// explainMutatingPolicies adds a step for each policy with each of its bindings and
// parameters. The evaluations came in the order of these.
func (c *chain) explainMutatingPolicies(_ context.Context, p *passage) {
	a := &withObject{p.attributes, p.object}
	used := map[string]bool{}
	left := p.policies
	for _, hook := range c.policies.mutating.Hooks() {
		used[hook.Policy.Name] = true
		for _, b := range hook.Bindings {
			of := &pair{
				plugin: mutatingPolicy, policy: hook.Policy.Name, binding: b.Name, constraints: hook.Policy.Spec.MatchConstraints,
				resources: b.Spec.MatchResources, ref: b.Spec.ParamRef, kind: hook.Policy.Spec.ParamKind, configError: hook.ConfigurationError,
			}
			s, found := c.matching(a, p.interfaces, of)
			switch {
			case !found.matched:
				p.add(s, p.round)
				continue
			case found.err != nil:
				s.Outcome, s.Message = failedAs(hook.Policy.Spec.FailurePolicy), found.err.Error()
				p.add(s, p.round)
				continue
			}
			params, err := generic.CollectParams(of.kind, hook.ParamInformer, hook.ParamScope, of.ref, p.attributes.GetNamespace())
			if err != nil || len(params) == 0 || hook.ConfigurationError != nil || len(left) == 0 || left[0].policy != hook.Policy.Name {
				p.add(of.unevaluated(s, p.err), p.round)
				continue
			}
			for range params {
				if len(left) > 0 && left[0].policy == hook.Policy.Name {
					p.add(p.mutatingStep(s, left[0], hook.Policy), p.round)
					left = left[1:]
				}
			}
		}
	}
	for _, s := range unbound(mutatingPolicy, everyPolicy(c.policies.mutatingPolicies.List), used) {
		p.add(s, p.round)
	}
}

func (p *passage) mutatingStep(s Step, e *policyEvent, policy *admissionv1.MutatingAdmissionPolicy) Step {
	s.Param, s.Checks, s.Took = e.param, e.checks, e.took
	switch {
	case e.skip != "":
		s.Why = e.skip
		return s
	case e.failed != nil:
		s.Called, s.Outcome, s.Message = true, failedAs(policy.Spec.FailurePolicy), e.failed.Error()
	case e.before == nil && p.round > 0:
		s.Why = notAgain(policy)
		return s
	default:
		s.Called, s.Outcome = true, Passed
	}
	if e.after == nil {
		return s
	}
	if s.Diff = diffOf(e.before, e.after); s.Diff != "" && s.Outcome == Passed {
		s.Outcome = Changed
	}
	return s
}

func notAgain(policy *admissionv1.MutatingAdmissionPolicy) string {
	if policy.Spec.ReinvocationPolicy != admissionv1.IfNeededReinvocationPolicy {
		return "reinvocationPolicy is Never"
	}
	return "nothing has changed the object since it was evaluated"
}
