package webhookconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"
	// domain is the suffix of the names of entries, which API servers show to denied users.
	domain = ".usher.dev"
	// nameLabel is the label with the name that API servers give each namespace.
	nameLabel = "kubernetes.io/metadata.name"
)

// Objects returns the configurations that a coverage needs. Equal coverages have identical objects.
// They include the defaults of API servers. They are complete unless there is an error other than
// [IncompleteError].
func (e *Applier) Objects(coverage rule.Coverage, caBundle []byte) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration, error) {
	entries, err := e.Entries(coverage)
	var unknown *IncompleteError
	if err != nil && !errors.As(err, &unknown) {
		return nil, nil, err
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: mutatingKind},
		ObjectMeta: e.o.metadata(),
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: validatingKind},
		ObjectMeta: e.o.metadata(),
	}
	for i := range entries {
		if entries[i].Phase == usher.Mutate {
			mutating.Webhooks = append(mutating.Webhooks, e.o.mutating(&entries[i], caBundle))
		} else {
			validating.Webhooks = append(validating.Webhooks, e.o.validating(&entries[i], caBundle))
		}
	}
	mutating.Annotations, validating.Annotations = list(entries, usher.Mutate), list(entries, usher.Validate)
	return mutating, validating, err
}

// Trees returns the configurations that a server with default options writes for a coverage, decoded, where kinds are those
// of the mapper.
func Trees(coverage rule.Coverage, mapper meta.RESTMapper) ([]map[string]any, error) {
	applier := New(nil, mapper, Options{Namespace: "usher-system", Service: DefaultName, Log: slog.New(slog.DiscardHandler)})
	mutating, validating, err := applier.Objects(coverage, nil)
	if unknown := (*IncompleteError)(nil); err != nil && !errors.As(err, &unknown) {
		return nil, err
	}
	var trees []map[string]any
	for _, object := range []runtime.Object{mutating, validating} {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode object: %w", err)
		}
		tree, err := usher.RawObject(raw).Tree()
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

// entriesAnnotation has the names of the entries that policies needed when a configuration was written: one that
// somebody removes leaves its name.
const entriesAnnotation = "usher.dev/entries"

// list returns the annotation with the entries of a phase.
func list(entries []Entry, phase usher.Phase) map[string]string {
	var names []string
	for i := range entries {
		if entries[i].Phase == phase {
			names = append(names, entries[i].String())
		}
	}
	return map[string]string{entriesAnnotation: strings.Join(names, ",")}
}

// Lacking returns the entries that a configuration had when Usher wrote it, and that are not among those it has.
func Lacking(configuration metav1.Object, has []string) []string {
	written := strings.Split(configuration.GetAnnotations()[entriesAnnotation], ",")
	return slices.DeleteFunc(written, func(name string) bool { return name == "" || slices.Contains(has, name) })
}

func (o *Options) client(path string, caBundle []byte) admissionv1.WebhookClientConfig {
	if o.URL != "" {
		url := strings.TrimSuffix(o.URL, "/") + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	}
	return admissionv1.WebhookClientConfig{
		Service:  &admissionv1.ServiceReference{Namespace: o.Namespace, Name: o.Service, Path: &path, Port: &o.Port},
		CABundle: caBundle,
	}
}

// namespaces excludes Usher's own namespace by the label that API servers set and nobody can
// change.
func (o *Options) namespaces(n *Entry) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if n.OfPolicies() {
		return selector
	}
	if o.NamespaceSelector != nil {
		selector = o.NamespaceSelector.DeepCopy()
	}
	if o.Namespace != "" {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: nameLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{o.Namespace},
		})
	}
	return selector
}

func (o *Options) objects(n *Entry) *metav1.LabelSelector {
	if n.OfPolicies() {
		return &metav1.LabelSelector{}
	}
	return o.objectSelector()
}

// objectSelector selects the objects whose requests are sent.
func (o *Options) objectSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if o.ObjectSelector != nil {
		selector = o.ObjectSelector.DeepCopy()
	}
	if o.Compat {
		selector = metav1.AddLabelToSelector(selector, "kinitiras.kcloudlabs.io/webhook", "enabled")
	}
	return selector
}

func (o *Options) metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Labels: map[string]string{managedBy: manager}}
}

func (o *Options) mutating(n *Entry, caBundle []byte) admissionv1.MutatingWebhook {
	none, equivalent := admissionv1.SideEffectClassNone, admissionv1.Equivalent
	reinvocation := cmp.Or(n.Reinvocation, o.Reinvocation)
	return admissionv1.MutatingWebhook{
		Name:                    Webhook(n.String()),
		ClientConfig:            o.client(o.Path(n.String()), caBundle),
		Rules:                   n.Rules,
		FailurePolicy:           &n.FailurePolicy,
		MatchPolicy:             &equivalent,
		NamespaceSelector:       o.namespaces(n),
		ObjectSelector:          o.objects(n),
		SideEffects:             &none,
		TimeoutSeconds:          &n.TimeoutSeconds,
		AdmissionReviewVersions: o.ReviewVersions,
		ReinvocationPolicy:      &reinvocation,
		MatchConditions:         n.Conditions,
	}
}

// validating is the mutating webhook of an entry, without the fields that only those have.
func (o *Options) validating(n *Entry, caBundle []byte) admissionv1.ValidatingWebhook {
	w := o.mutating(n, caBundle)
	return admissionv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
		TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}
