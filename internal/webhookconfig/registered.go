package webhookconfig

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A Registered is an entry of Usher's as API servers know it.
type Registered struct {
	// Entry is its name without the domain, such as mutate.
	Entry string
	// Path is the URL path that is called.
	Path string
	// Rules are what is sent.
	Rules []admissionv1.RuleWithOperations
}

// Registered reads the current webhook configurations. Configurations that do not exist, or that
// are not Usher's, have no entries; entries that others have added are ignored.
func (e *Applier) Registered(ctx context.Context) ([]Registered, error) {
	client := e.kube.AdmissionregistrationV1()
	mutating, err := client.MutatingWebhookConfigurations().Get(ctx, e.o.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read %s %s: %w", mutatingKind, e.o.Name, err)
	}
	var all []Registered
	if err == nil && ours(mutating) {
		for i := range mutating.Webhooks {
			w := &mutating.Webhooks[i]
			all = e.o.appendRegistered(all, w.Name, &w.ClientConfig, w.Rules)
		}
	}
	validating, err := client.ValidatingWebhookConfigurations().Get(ctx, e.o.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read %s %s: %w", validatingKind, e.o.Name, err)
	}
	if err == nil && ours(validating) {
		for i := range validating.Webhooks {
			w := &validating.Webhooks[i]
			all = e.o.appendRegistered(all, w.Name, &w.ClientConfig, w.Rules)
		}
	}
	return all, nil
}

func (o *Options) appendRegistered(all []Registered, name string, c *admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations) []Registered {
	at, ok := EntryOf(name)
	path := o.pathOf(c)
	if !ok || path == "" {
		return all
	}
	return append(all, Registered{Entry: at.String(), Path: path, Rules: rules})
}

// LeavingOut returns options that leave out the namespaces that the configurations of a name leave out by their names, the one
// of Usher among them; ok is false if that cannot be read, or nothing is registered.
func LeavingOut(ctx context.Context, kube kubernetes.Interface, name string) (o Options, ok bool) {
	client := kube.AdmissionregistrationV1()
	if mutating, err := client.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{}); err == nil && ours(mutating) {
		for i := range mutating.Webhooks {
			ok = o.leavesOut(mutating.Webhooks[i].Name, mutating.Webhooks[i].NamespaceSelector) || ok
		}
	}
	if validating, err := client.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{}); err == nil && ours(validating) {
		for i := range validating.Webhooks {
			ok = o.leavesOut(validating.Webhooks[i].Name, validating.Webhooks[i].NamespaceSelector) || ok
		}
	}
	return o, ok
}

// ByName returns options that leave out the namespaces that o leaves out by their names, the one of Usher among them.
func (o *Options) ByName() *Options {
	return &Options{Namespace: o.Namespace, NamespaceSelector: byName(o.NamespaceSelector)}
}

// byName returns what a selector says of the names of namespaces.
func byName(of *metav1.LabelSelector) *metav1.LabelSelector {
	if of == nil {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchExpressions: slices.DeleteFunc(slices.Clone(of.MatchExpressions), func(r metav1.LabelSelectorRequirement) bool { return r.Key != nameLabel })}
}

// leavesOut has what an entry says of the names of namespaces, and reports whether it is one that may. All have the same selector.
func (o *Options) leavesOut(name string, of *metav1.LabelSelector) bool {
	if entry, known := EntryOf(name); !known || entry.OfPolicies() {
		return false
	}
	o.NamespaceSelector = byName(of)
	return true
}

// pathOf is the path that an entry has here. A URL may lead through a proxy, which has a
// path of its own.
func (o *Options) pathOf(c *admissionv1.WebhookClientConfig) string {
	switch {
	case c.Service != nil && c.Service.Path != nil:
		return *c.Service.Path
	case c.URL == nil:
		return ""
	}
	if path, ok := strings.CutPrefix(*c.URL, strings.TrimSuffix(o.URL, "/")); ok && o.URL != "" {
		return path
	}
	u, err := url.Parse(*c.URL)
	if err != nil {
		return ""
	}
	return u.Path
}
