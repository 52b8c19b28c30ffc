package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

type validatingHook = generic.PolicyHook[*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, validating.Validator]

// validatingPolicies is the plugin for ValidatingAdmissionPolicies: the API server's, whose
// policies tell the run what they say.
type validatingPolicies struct {
	*generic.Plugin[validatingHook]
}

func (c *chain) newValidatingPolicies() admission.Interface {
	source := func(f informers.SharedInformerFactory, _ kubernetes.Interface, params dynamic.Interface, mapper meta.RESTMapper) generic.Source[validatingHook] {
		api := f.Admissionregistration().V1()
		c.policies.validating = sorted[*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, validating.Validator]{generic.NewPolicySource(
			api.ValidatingAdmissionPolicies().Informer(), api.ValidatingAdmissionPolicyBindings().Informer(),
			validating.NewValidatingAdmissionPolicyAccessor, validating.NewValidatingAdmissionPolicyBindingAccessor,
			compileValidating, f, params, mapper,
		)}
		return c.policies.validating
	}
	dispatcher := func(a authorizer.Authorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[validatingHook] {
		return validating.NewDispatcher(a, &binding{generic.NewPolicyMatcher(m)})
	}
	handler := admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update)
	plugin := &validatingPolicies{generic.NewPlugin(handler, source, dispatcher)}
	plugin.SetEnabled(true)
	return plugin
}

// Validate implements [admission.ValidationInterface].
func (p *validatingPolicies) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Dispatch(ctx, a, o)
}

// A binding matcher notes which binding the evaluations that follow are for.
type binding struct{ generic.PolicyMatcher }

// BindingMatches implements [generic.PolicyMatcher].
func (b *binding) BindingMatches(a admission.Attributes, o admission.ObjectInterfaces, accessor generic.BindingAccessor) (bool, error) {
	if known, ok := a.(*attributes); ok {
		known.run.bound = accessor.GetName()
	}
	return b.PolicyMatcher.BindingMatches(a, o, accessor)
}

// compileValidating compiles a policy as an API server does.
func compileValidating(p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	// One entry for each validation: messages may be nil.
	rules, messages := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations)), make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		rules[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	annotations := make([]plugincel.ExpressionAccessor, len(p.Spec.AuditAnnotations))
	for i, a := range p.Spec.AuditAnnotations {
		annotations[i] = &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}
	}
	withoutAuthorizer := plugincel.OptionalVariableDeclarations{HasParams: declared.HasParams}
	return &validator{policy: p, Validator: validating.NewValidator(
		compiler.CompileCondition(rules, declared, environment.StoredExpressions),
		conditionsOf(compiler, p.Spec.MatchConditions, declared, p.Spec.FailurePolicy, p.Name),
		compiler.CompileCondition(annotations, declared, environment.StoredExpressions),
		compiler.CompileCondition(messages, withoutAuthorizer, environment.StoredExpressions),
		p.Spec.FailurePolicy, nil,
	)}
}

// conditionsOf compiles the match conditions of a policy.
func conditionsOf(compiler *plugincel.CompositedCompiler, all []admissionv1.MatchCondition, declared plugincel.OptionalVariableDeclarations,
	failure *admissionv1.FailurePolicyType, policy string) matchconditions.Matcher {
	matcher := &conditioned{conditions: all, policy: policy}
	if len(all) == 0 {
		return matcher
	}
	expressions := make([]plugincel.ExpressionAccessor, len(all))
	for i := range all {
		condition := matchconditions.MatchCondition(all[i])
		expressions[i] = &condition
	}
	compiled := compiler.CompileCondition(expressions, declared, environment.StoredExpressions)
	matcher.matcher = matchconditions.NewMatcher(compiled, failure, "policy", "validate", policy)
	return matcher
}

// A validator tells the run what it decided.
type validator struct {
	validating.Validator

	policy *admissionv1.ValidatingAdmissionPolicy
}

// Validate implements [validating.Validator].
func (v *validator) Validate(ctx context.Context, resource schema.GroupVersionResource, a *admission.VersionedAttributes, param runtime.Object,
	namespace *corev1.Namespace, budget int64, authz authorizer.Authorizer) validating.ValidateResult {
	r := runOf(ctx)
	e := r.newEvent(v.policy.Name+"/"+r.bound, param)
	result := v.Validator.Validate(ctx, resource, a, param, namespace, budget, authz)
	e.took = time.Since(e.start)
	if e.skip != "" || e.failed != nil {
		return result
	}
	for i, decision := range result.Decisions {
		check := Check{Name: fmt.Sprintf("validations[%d]", i), Value: "true"}
		if i < len(v.policy.Spec.Validations) {
			check.Expression = v.policy.Spec.Validations[i].Expression
		}
		switch decision.Evaluation {
		case validating.EvalDeny:
			check.Value, check.Message = "false", decision.Message
		case validating.EvalError:
			check.Value, check.Message = "error", decision.Message
		case validating.EvalAdmit:
		}
		if decision.Action == validating.ActionDeny {
			e.denied = append(e.denied, decision)
		}
		e.checks = append(e.checks, check)
	}
	return result
}

// explainValidatingPolicies adds a step for each policy with each of its bindings.
func (c *chain) explainValidatingPolicies(p *passage) {
	used := map[string]bool{}
	for _, hook := range c.policies.validating.Hooks() {
		used[hook.Policy.Name] = true
		for _, b := range hook.Bindings {
			of := &pair{
				plugin: validatingPolicy, policy: hook.Policy.Name, binding: b.Name, constraints: hook.Policy.Spec.MatchConstraints,
				resources: b.Spec.MatchResources, ref: b.Spec.ParamRef, kind: hook.Policy.Spec.ParamKind, configError: hook.ConfigurationError,
			}
			for _, s := range c.validatingSteps(p, of, b.Spec.ValidationActions, hook.Policy.Spec.FailurePolicy) {
				p.add(s, p.round)
			}
		}
	}
	for _, s := range unbound(validatingPolicy, everyPolicy(c.policies.validatingPolicies.List), used) {
		p.add(s, p.round)
	}
}

func (c *chain) validatingSteps(p *passage, of *pair, actions []admissionv1.ValidationAction, failure *admissionv1.FailurePolicyType) []Step {
	s, found := c.matching(p.attributes, p.interfaces, of)
	switch {
	case !found.matched:
		return []Step{s}
	case found.err != nil:
		s.Outcome, s.Message = failedAs(failure), found.err.Error()
		return []Step{s}
	}
	var steps []Step
	for _, e := range p.policies {
		if e.policy == s.Name {
			steps = append(steps, validatingStep(s, e, actions, failure))
		}
	}
	if len(steps) == 0 {
		return []Step{of.unevaluated(s, p.err)}
	}
	return steps
}

func validatingStep(s Step, e *policyEvent, actions []admissionv1.ValidationAction, failure *admissionv1.FailurePolicyType) Step {
	s.Param, s.Checks, s.Took = e.param, e.checks, e.took
	switch {
	case e.skip != "":
		s.Why = e.skip
		return s
	case e.failed != nil:
		s.Called, s.Outcome, s.Message = true, failedAs(failure), e.failed.Error()
		if s.Outcome == Failed && !denies(actions) {
			s.Outcome = Reported
		}
		return s
	}
	s.Called, s.Outcome = true, Passed
	for _, check := range s.Checks {
		if check.Value == "error" {
			s.Outcome, s.Message = Ignored, check.Message
		}
	}
	if len(e.denied) == 0 {
		return s
	}
	s.Outcome, s.Message = Reported, e.denied[0].Message
	if denies(actions) {
		s.Outcome = Denied
	}
	return s
}

func denies(actions []admissionv1.ValidationAction) bool {
	return slices.Contains(actions, admissionv1.Deny)
}

// failedAs is what a failure comes to.
func failedAs(policy *admissionv1.FailurePolicyType) Outcome {
	if policy != nil && *policy == admissionv1.Ignore {
		return Ignored
	}
	return Failed
}
