package packs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
		return errors.New("--namespaces is for --action and --params: say what is different there, as in --action Deny; to install policies as those of one namespace: --namespace")
	}
	if err := checkNames("namespaces", f.namespaces); err != nil {
		return err
	}
	for i := range found {
		within, outside := scopes(&found[i])
		if !within {
			return fmt.Errorf("--namespaces: policy %s is only for objects that are in no namespace: install it by itself", found[i].Name)
		}
		settings[i].Namespaced = outside
	}
	return nil
}

// InfrastructureFlag names the flag of the namespaces without whose pods a cluster cannot recover, and Infrastructure
// describes it.
const (
	InfrastructureFlag = "infrastructure-namespaces"
	Infrastructure     = "namespaces of the pod network, storage drivers, DNS and other add-ons of the cluster"
)

// CheckInfrastructure returns an error for a wrong value of the flag.
func CheckInfrastructure(names []string) error { return checkNames(InfrastructureFlag, names) }

func checkNames(flag string, names []string) error {
	for _, name := range names {
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			return fmt.Errorf("--%s %q: not the name of a namespace: %s", flag, name, errs[0])
		}
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
			_, known := recordedAs(resource, rule.APIGroups)
			for _, r := range known {
				inside := r.Namespaced || r.Under() == "" && r.Name == "namespaces"
				within, outside = within || inside, outside || !inside
			}
			if len(known) == 0 {
				within, outside = true, true
			}
		}
	}
	return within, outside
}

// recordedKinds are those of Kubernetes.
var recordedKinds = sync.OnceValue(kind.Recorded)

// recordedAs returns the resources of Kubernetes that a rule is for under a name, which is also returned without what
// names a subresource; none for what is not recorded.
func recordedAs(resource string, groups []string) (string, []*kind.Resource) {
	name, _, _ := strings.Cut(resource, "/")
	var found []*kind.Resource
	for r := range recordedKinds().Resources() {
		if (name == "*" || r.Name == name) && (slices.Contains(groups, "*") || slices.Contains(groups, r.Under())) {
			found = append(found, r)
		}
	}
	return name, found
}
