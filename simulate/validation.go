package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

// maxMatchConditions is how many match conditions a webhook may have.
const maxMatchConditions = 64

// validate returns what an API server says of a webhook configuration that is created, and
// nil for other kinds. Its rules are those of pkg/apis/admissionregistration/validation of
// k8s.io/kubernetes 1.36.
func validate(object runtime.Object) error {
	var meta *metav1.ObjectMeta
	var hooks []webhook.WebhookAccessor
	var versions [][]string
	var reinvocation []*admissionv1.ReinvocationPolicyType
	switch c := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		meta = &c.ObjectMeta
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			hooks = append(hooks, webhook.NewMutatingWebhookAccessor("", "", w))
			versions, reinvocation = append(versions, w.AdmissionReviewVersions), append(reinvocation, w.ReinvocationPolicy)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		meta = &c.ObjectMeta
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			hooks = append(hooks, webhook.NewValidatingWebhookAccessor("", "", w))
			versions, reinvocation = append(versions, w.AdmissionReviewVersions), append(reinvocation, nil)
		}
	default:
		return nil
	}
	problems := apivalidation.ValidateObjectMeta(meta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	seen := map[string]bool{}
	for i, hook := range hooks {
		at := field.NewPath("webhooks").Index(i)
		problems = append(problems, validateWebhook(hook, reinvocation[i], at)...)
		problems = append(problems, validateReviewVersions(versions[i], at.Child("admissionReviewVersions"))...)
		if seen[hook.GetName()] && hook.GetName() != "" {
			problems = append(problems, field.Duplicate(at.Child("name"), hook.GetName()))
		}
		seen[hook.GetName()] = true
	}
	return problems.ToAggregate()
}

func validateWebhook(hook webhook.WebhookAccessor, reinvocation *admissionv1.ReinvocationPolicyType, at *field.Path) field.ErrorList {
	problems := utilvalidation.IsFullyQualifiedName(at.Child("name"), hook.GetName())
	for i, r := range hook.GetRules() {
		problems = append(problems, validateRule(r, at.Child("rules").Index(i))...)
	}
	problems = append(problems, oneOf(hook.GetFailurePolicy(), at.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	problems = append(problems, oneOf(hook.GetMatchPolicy(), at.Child("matchPolicy"), admissionv1.Equivalent, admissionv1.Exact)...)
	problems = append(problems, validateSideEffects(hook.GetSideEffects(), at.Child("sideEffects"))...)
	if timeout := hook.GetTimeoutSeconds(); timeout != nil && (*timeout < 1 || *timeout > 30) {
		problems = append(problems, field.Invalid(at.Child("timeoutSeconds"), *timeout, "the timeout value must be between 1 and 30 seconds"))
	}
	problems = append(problems, validateSelector(hook.GetNamespaceSelector(), at.Child("namespaceSelector"))...)
	problems = append(problems, validateSelector(hook.GetObjectSelector(), at.Child("objectSelector"))...)
	problems = append(problems, oneOf(reinvocation, at.Child("reinvocationPolicy"), admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	problems = append(problems, validateClient(hook.GetClientConfig(), at.Child("clientConfig"))...)
	return append(problems, validateMatchConditions(hook.GetMatchConditions(), at.Child("matchConditions"))...)
}

// oneOf refuses a value that is set and none of those that there are.
func oneOf[T ~string](value *T, at *field.Path, values ...T) field.ErrorList {
	if value == nil || slices.Contains(values, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, *value, values)}
}

func validateSideEffects(effects *admissionv1.SideEffectClass, at *field.Path) field.ErrorList {
	if effects == nil {
		return field.ErrorList{field.Required(at, "must specify one of None, NoneOnDryRun")}
	}
	return oneOf(effects, at, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun)
}

func validateSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

func validateClient(client admissionv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case client.URL != nil:
		return webhookutil.ValidateWebhookURL(at.Child("url"), *client.URL, true)
	}
	s := client.Service
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	// API servers, too, give the name for the namespace, and so name the other one as missing.
	return webhookutil.ValidateWebhookService(at.Child("service"), s.Name, s.Namespace, s.Path, port)
}

func validateReviewVersions(versions []string, at *field.Path) field.ErrorList {
	accepted := []string{"v1", "v1beta1"}
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+strings.Join(accepted, ", "))}
	}
	var problems field.ErrorList
	known := false
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			problems = append(problems, field.Invalid(at.Index(i), version, "duplicate version"))
			continue
		}
		for _, what := range utilvalidation.IsDNS1035Label(version) {
			problems = append(problems, field.Invalid(at.Index(i), version, what))
		}
		known = known || slices.Contains(accepted, version)
	}
	if !known {
		problems = append(problems, field.Invalid(at, versions, "must include at least one of "+strings.Join(accepted, ", ")))
	}
	return problems
}

func validateRule(r admissionv1.RuleWithOperations, at *field.Path) field.ErrorList {
	operations := []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
	}
	problems := listed(r.Operations, at.Child("operations"), "operations")
	for i, operation := range r.Operations {
		problems = append(problems, oneOf(&operation, at.Child("operations").Index(i), operations...)...)
	}
	problems = append(problems, listed(r.APIGroups, at.Child("apiGroups"), "API groups")...)
	problems = append(problems, listed(r.APIVersions, at.Child("apiVersions"), "API versions")...)
	for i, version := range r.APIVersions {
		if version == "" {
			problems = append(problems, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	problems = append(problems, validateResources(r.Resources, at.Child("resources"))...)
	return append(problems, oneOf(r.Scope, at.Child("scope"), admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
}

// listed refuses a list that is empty, or in which "*" is not alone.
func listed[T ~string](values []T, at *field.Path, what string) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(at, values, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateResources(resources []string, at *field.Path) field.ErrorList {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var problems field.ErrorList
	// all are the x of x/*, and everywhere those of */x.
	all, everywhere := map[string]bool{}, map[string]bool{}
	whole := false
	for i, text := range resources {
		if text == "" {
			problems = append(problems, field.Required(at.Index(i), ""))
			continue
		}
		resource, sub, found := strings.Cut(text, "/")
		if !found {
			// The last one counts, as in API servers.
			whole = text != "*"
			continue
		}
		if all[resource] {
			problems = append(problems, field.Invalid(at.Index(i), text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, text)))
		}
		if everywhere[sub] {
			problems = append(problems, field.Invalid(at.Index(i), text, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, text)))
		}
		all[resource] = all[resource] || sub == "*"
		everywhere[sub] = everywhere[sub] || resource == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		problems = append(problems, field.Invalid(at, resources, "if '*/*' is present, must not specify other resources"))
	}
	if whole && slices.Contains(resources, "*") {
		problems = append(problems, field.Invalid(at, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return problems
}

func validateMatchConditions(conditions []admissionv1.MatchCondition, at *field.Path) field.ErrorList {
	if len(conditions) == 0 {
		return nil
	}
	var problems field.ErrorList
	if len(conditions) > maxMatchConditions {
		problems = append(problems, field.TooMany(at, len(conditions), maxMatchConditions))
	}
	compiler := plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	seen := map[string]bool{}
	for i, c := range conditions {
		at := at.Index(i)
		problems = append(problems, validateExpression(compiler, strings.TrimSpace(c.Expression), at.Child("expression"))...)
		if c.Name == "" {
			problems = append(problems, field.Required(at.Child("name"), ""))
			continue
		}
		for _, what := range utilvalidation.IsQualifiedName(c.Name) {
			problems = append(problems, field.Invalid(at.Child("name"), c.Name, what))
		}
		if seen[c.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
	return problems
}

func validateExpression(compiler plugincel.Compiler, expression string, at *field.Path) field.ErrorList {
	if expression == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	condition := matchconditions.MatchCondition{Expression: expression}
	result := compiler.CompileCELExpression(&condition, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	if result.Error == nil {
		return nil
	}
	var found *apiservercel.Error
	if errors.As(result.Error, &found) && found.Type != apiservercel.ErrorTypeInternal {
		return field.ErrorList{field.Invalid(at, expression, found.Detail)}
	}
	return field.ErrorList{field.InternalError(at, result.Error)}
}
