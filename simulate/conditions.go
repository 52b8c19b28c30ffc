package simulate

import (
	"context"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// newConditionCompiler creates a compiler on first use: that takes long.
func newConditionCompiler() func() plugincel.ConditionCompiler {
	return sync.OnceValue(func() plugincel.ConditionCompiler {
		return plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})
}

// conditions evaluates the match conditions of a webhook one by one. Stop is why they keep it from
// being called, if they do, and fails whether the request fails because of that.
func (c *chain) conditions(ctx context.Context, hook webhook.WebhookAccessor, a admission.Attributes, o admission.ObjectInterfaces, found verdict) (checks []Check, stop string, fails bool) {
	all := hook.GetMatchConditions()
	if len(all) == 0 {
		return nil, "", false
	}
	versioned, err := admission.NewVersionedAttributes(a, found.kind, o)
	if err != nil {
		return nil, err.Error(), false
	}
	failed := ""
	for i, matcher := range c.matchers(hook) {
		check := Check{Name: fmt.Sprintf("matchConditions[%s]", all[i].Name), Expression: all[i].Expression, Value: "true"}
		result := matcher.Match(ctx, versioned, nil, c.sim.cluster.authorizer)
		switch {
		case result.Error != nil:
			check.Value, check.Message = "error", result.Error.Error()
			if failed == "" {
				failed = fmt.Sprintf("%s has no value: %v", check.Name, result.Error)
			}
		case !result.Matches:
			check.Value = "false"
			if stop == "" {
				stop = check.Name + " is false"
			}
		}
		checks = append(checks, check)
	}
	switch {
	case stop != "" || failed == "":
		return checks, stop, false
	case hook.GetFailurePolicy() != nil && *hook.GetFailurePolicy() == admissionv1.Ignore:
		return checks, failed + ", and failurePolicy is Ignore", false
	}
	return checks, failed + ", and failurePolicy is Fail", true
}

// matchers returns one matcher for each condition of a webhook. A condition without a value is an
// error of its matcher, for every failure policy.
func (c *chain) matchers(hook webhook.WebhookAccessor) []matchconditions.Matcher {
	if known, ok := c.compiled.Load(hook); ok {
		return known.([]matchconditions.Matcher)
	}
	var all []matchconditions.Matcher
	for _, condition := range hook.GetMatchConditions() {
		all = append(all, c.matcher(condition, hook.GetName()))
	}
	c.compiled.Store(hook, all)
	return all
}

func (c *chain) matcher(condition admissionv1.MatchCondition, name string) matchconditions.Matcher {
	fail := admissionv1.Fail
	expression := matchconditions.MatchCondition(condition)
	declarations := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiled := c.compiler().CompileCondition([]plugincel.ExpressionAccessor{&expression}, declarations, environment.StoredExpressions)
	return matchconditions.NewMatcher(compiled, &fail, "webhook", "explain", name)
}
