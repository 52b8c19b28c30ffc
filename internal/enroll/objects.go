package enroll

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"
	// domain ends the names of the entries, which API servers show to whoever is denied.
	domain = ".usher.dev"
)

// Webhook is the name of the entry that asks a phase, in the configuration of that phase.
func Webhook(phase usher.Phase) string { return string(phase) + domain }

// An entry is what both kinds of webhooks have in common.
type entry struct {
	name              string
	client            admissionv1.WebhookClientConfig
	rules             []admissionv1.RuleWithOperations
	conditions        []admissionv1.MatchCondition
	namespaceSelector *metav1.LabelSelector
	objectSelector    *metav1.LabelSelector
}

// Objects returns the configurations that a coverage needs. Equal coverages give equal
// objects, to the byte. Everything that API servers would fill in is there. They are
// complete unless there is an error other than [UnknownKindsError].
func (e *Enroller) Objects(coverage rule.Coverage, caBundle []byte) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration, error) {
	mutating, unknown, err := e.rules(coverage.Mutate)
	if err != nil {
		return nil, nil, err
	}
	validating, unknownToo, err := e.rules(coverage.Validate)
	if err != nil {
		return nil, nil, err
	}
	m := e.entry(usher.Mutate, coverage.Mutate, mutating, caBundle)
	v := e.entry(usher.Validate, coverage.Validate, validating, caBundle)
	return e.mutating(m), e.validating(v), unknownKinds(unknown, unknownToo)
}

func (e *Enroller) entry(phase usher.Phase, covered []rule.Covered, rules []admissionv1.RuleWithOperations, caBundle []byte) entry {
	return entry{
		name:              Webhook(phase),
		client:            e.client("/"+string(phase), caBundle),
		rules:             rules,
		conditions:        e.conditions(covered),
		namespaceSelector: e.namespaces(),
		objectSelector:    e.objects(),
	}
}

func (e *Enroller) client(path string, caBundle []byte) admissionv1.WebhookClientConfig {
	if e.o.URL != "" {
		url := strings.TrimSuffix(e.o.URL, "/") + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	}
	return admissionv1.WebhookClientConfig{
		Service:  &admissionv1.ServiceReference{Namespace: e.o.Namespace, Name: e.o.Service, Path: &path, Port: &e.o.Port},
		CABundle: caBundle,
	}
}

// namespaces excludes Usher's own namespace by the label that API servers set, and which
// nobody can change.
func (e *Enroller) namespaces() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if e.o.NamespaceSelector != nil {
		selector = e.o.NamespaceSelector.DeepCopy()
	}
	if e.o.Namespace != "" {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{e.o.Namespace},
		})
	}
	return selector
}

func (e *Enroller) objects() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if e.o.ObjectSelector != nil {
		selector = e.o.ObjectSelector.DeepCopy()
	}
	if e.o.Compat {
		selector = metav1.AddLabelToSelector(selector, "kinitiras.kcloudlabs.io/webhook", "enabled")
	}
	return selector
}

func (e *Enroller) metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: e.o.Name, Labels: map[string]string{managedBy: manager}}
}

func (e *Enroller) mutating(n entry) *admissionv1.MutatingWebhookConfiguration {
	none, equivalent := admissionv1.SideEffectClassNone, admissionv1.Equivalent
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: mutatingKind},
		ObjectMeta: e.metadata(),
		Webhooks: []admissionv1.MutatingWebhook{{
			Name:                    n.name,
			ClientConfig:            n.client,
			Rules:                   n.rules,
			FailurePolicy:           &e.o.FailurePolicy,
			MatchPolicy:             &equivalent,
			NamespaceSelector:       n.namespaceSelector,
			ObjectSelector:          n.objectSelector,
			SideEffects:             &none,
			TimeoutSeconds:          &e.o.TimeoutSeconds,
			AdmissionReviewVersions: e.o.ReviewVersions,
			ReinvocationPolicy:      &e.o.Reinvocation,
			MatchConditions:         n.conditions,
		}},
	}
}

func (e *Enroller) validating(n entry) *admissionv1.ValidatingWebhookConfiguration {
	none, equivalent := admissionv1.SideEffectClassNone, admissionv1.Equivalent
	return &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: validatingKind},
		ObjectMeta: e.metadata(),
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    n.name,
			ClientConfig:            n.client,
			Rules:                   n.rules,
			FailurePolicy:           &e.o.FailurePolicy,
			MatchPolicy:             &equivalent,
			NamespaceSelector:       n.namespaceSelector,
			ObjectSelector:          n.objectSelector,
			SideEffects:             &none,
			TimeoutSeconds:          &e.o.TimeoutSeconds,
			AdmissionReviewVersions: e.o.ReviewVersions,
			MatchConditions:         n.conditions,
		}},
	}
}
