package object

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/rule"
)

// noteExcluded warns of resources that the policy names and never acts on, since it is one of a
// namespace. Wildcards that include them are for the others.
func (c *compilation) noteExcluded(m *admissionv1.MatchResources) {
	for i := range m.ResourceRules {
		r := &m.ResourceRules[i]
		for j, resource := range r.Resources {
			group, ok := c.excludedGroup(r.APIGroups, resource)
			if !ok {
				continue
			}
			c.Problems = append(c.Problems, rule.Problem{
				Severity: rule.Warning, Field: fmt.Sprintf("spec.matchConstraints.resourceRules[%d].resources[%d]", i, j),
				What: rule.NoAction(strings.TrimSuffix(resource+"."+group, ".")) + ": it does nothing for these requests",
				Do:   "remove the resource, or ask who administers the cluster for a ClusterObjectPolicy, or to allow the kind: --namespaced-kinds",
			})
		}
	}
}

// noteNamespace warns of a namespaceSelector that selects namespaces by their name, and not that of the
// policy, which is for no others.
func (c *compilation) noteNamespace(s *metav1.LabelSelector) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if s == nil || err != nil || c.policy.ref.Namespace == "" {
		return
	}
	if rule.NamespacesOf(selector).Has(c.policy.ref.Namespace) {
		return
	}
	c.Problems = append(c.Problems, rule.Problem{
		Severity: rule.Warning, Field: "spec.matchConstraints.namespaceSelector",
		What: fmt.Sprintf("it does not select the namespace %s, in which the policy is, and a policy of a namespace is for no other: it does nothing", c.policy.ref.Namespace),
		Do:   "remove the selector, or write the policy in the namespace that it is for",
	})
}

// excludedGroup returns the group in which the policy does not act on a resource.
func (c *compilation) excludedGroup(groups []string, resource string) (string, bool) {
	for _, group := range groups {
		if group == "*" {
			group = ""
		}
		if c.policy.kinds.HasResource(group, resource) {
			return group, true
		}
	}
	return "", false
}
