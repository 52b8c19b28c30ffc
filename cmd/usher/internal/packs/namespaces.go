package packs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/library"
)

// checkNamespaces returns an error for settings that single namespaces cannot have, and sets what keeps those
// of the others from objects that are in no namespace.
func (f *Flags) checkNamespaces(found []library.Policy, settings []library.Settings) error {
	if len(f.namespaces) == 0 {
		return nil
	}
	if f.action == "" && len(f.params) == 0 {
		return errors.New("--namespaces is for --action and --params: say what is different there, as in --action Deny")
	}
	for _, namespace := range f.namespaces {
		if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 {
			return fmt.Errorf("--namespaces %q: not the name of a namespace: %s", namespace, errs[0])
		}
	}
	for i := range found {
		within, outside := scopes(&found[i])
		if !within {
			return fmt.Errorf("--namespace: policy %s is only for objects that are in no namespace: install it by itself", found[i].Name)
		}
		settings[i].Namespaced = outside
	}
	return nil
}

// scopes reports whether a policy is for objects in namespaces, or for namespaces, and whether it may be for
// others: kinds that are not recorded may be both.
func scopes(p *library.Policy) (within, outside bool) {
	for i := range p.Spec.MatchConstraints.ResourceRules {
		rule := &p.Spec.MatchConstraints.ResourceRules[i]
		if rule.Scope != nil && *rule.Scope == admissionv1.NamespacedScope {
			within = true
			continue
		}
		for _, resource := range rule.Resources {
			name, _, _ := strings.Cut(resource, "/")
			known := false
			for r := range kind.Recorded().Resources() {
				if name != "*" && r.Name != name || !slices.Contains(rule.APIGroups, "*") && !slices.Contains(rule.APIGroups, r.Under()) {
					continue
				}
				known = true
				inside := r.Namespaced || r.Under() == "" && r.Name == "namespaces"
				within, outside = within || inside, outside || !inside
			}
			if !known {
				within, outside = true, true
			}
		}
	}
	return within, outside
}
