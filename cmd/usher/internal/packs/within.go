package packs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/library"
)

// RegisterNamespace adds the flag that makes the policies those of a namespace.
func (f *Flags) RegisterNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.within, "namespace", "n", "", "namespace of the policies: ObjectPolicies of it, which its tenants may write, in place of ClusterObjectPolicies")
}

// Namespace returns the namespace of the policies, empty for policies of the cluster.
func (f *Flags) Namespace() string { return f.within }

// Within leaves out the policies that mean something else as ObjectPolicies of the namespace that the flag
// names, and returns why, one sentence for each.
func (f *Flags) Within(found []library.Policy, settings []library.Settings) ([]library.Policy, []library.Settings, []string, error) {
	if f.within == "" {
		return found, settings, nil, nil
	}
	if errs := validation.IsDNS1123Label(f.within); len(errs) > 0 {
		several := ""
		if strings.Contains(f.within, ",") {
			several = "; to change what policies of the cluster do in several namespaces: --namespaces"
		}
		return nil, nil, nil, fmt.Errorf("--namespace %q: not the name of a namespace: %s%s", f.within, errs[0], several)
	}
	if len(f.namespaces) > 0 {
		return nil, nil, nil, errors.New("--namespace and --namespaces exclude each other: --namespaces is for policies of the cluster")
	}
	var kept []library.Policy
	var set []library.Settings
	var left []string
	for i := range found {
		settings[i].Within = f.within
		why, err := onlyOfCluster(&found[i], settings[i])
		switch {
		case err != nil:
			return nil, nil, nil, err
		case why != "":
			left = append(left, found[i].Name+": "+why)
		default:
			kept, set = append(kept, found[i]), append(set, settings[i])
		}
	}
	if len(kept) == 0 && len(found) > 0 {
		return nil, nil, nil, fmt.Errorf("--namespace %s: no policy of a namespace means the same: %s", f.within, strings.Join(left, "; "))
	}
	return kept, set, left, nil
}

// onlyOfCluster returns why a policy means something else as one of a namespace; empty if it does not.
func onlyOfCluster(p *library.Policy, settings library.Settings) (string, error) {
	why := outsideNamespaces(p.Spec.MatchConstraints.ResourceRules)
	switch {
	case why != "":
		return why, nil
	case p.Spec.ExistingObjects != nil:
		return "existingObjects is for policies of the cluster", nil
	case p.Spec.NamespaceExemptions != "":
		return "namespaceExemptions is for policies of the cluster", nil
	}
	within, err := problemsOf(p, settings)
	if err != nil || len(within) == 0 {
		return "", err
	}
	settings.Within = ""
	ofCluster, err := problemsOf(p, settings)
	if err != nil {
		return "", err
	}
	for i := range within {
		same := func(other rule.Problem) bool { return other.Field == within[i].Field && other.What == within[i].What }
		if !slices.ContainsFunc(ofCluster, same) {
			return within[i].What, nil
		}
	}
	return "", nil
}

// problemsOf returns what is wrong with a policy that has settings.
func problemsOf(p *library.Policy, settings library.Settings) ([]rule.Problem, error) {
	policies, err := Decode([]library.Policy{*p}, []library.Settings{settings})
	var all []rule.Problem
	for i := range policies {
		all = append(all, compile.Policy(policies[i]).Problems...)
	}
	return all, err
}

// outsideNamespaces returns why the rules may be for objects that are in no namespace; empty if they are not.
func outsideNamespaces(rules []admissionv1.NamedRuleWithOperations) string {
	for i := range rules {
		if scope := rules[i].Scope; scope != nil && *scope == admissionv1.NamespacedScope {
			continue
		}
		for _, resource := range rules[i].Resources {
			name, known := recordedAs(resource, rules[i].APIGroups)
			if len(known) == 0 {
				return "whether " + name + " are in a namespace is not known"
			}
			for _, r := range known {
				if !r.Namespaced {
					return "it is also for " + r.Name + ", which are in no namespace"
				}
			}
		}
	}
	return ""
}
