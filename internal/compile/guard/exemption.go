package guard

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// VerbExempt is the verb that the writer of an exemption needs on each policy that it names.
const VerbExempt = "exempt"

// clockSkew is how much further ahead an exemption may end than permitted: its writer has another
// clock.
const clockSkew = time.Minute

// exemption returns the spec of a policy if it is an exemption; nil otherwise.
func exemption(object api.Object) *v1alpha1.PolicyExemptionSpec {
	spec, _ := api.Spec(object).(*v1alpha1.PolicyExemptionSpec)
	return spec
}

// exemptRights returns the rights that the writer of an exemption needs: the verb exempt on each
// policy that it names, and on all policies of a kind if the name is a pattern. For policies of a
// kind with namespaces, it is asked in the namespace of the exemption, and for one of the cluster in
// all namespaces.
func exemptRights(user usher.User, namespace string, refs []v1alpha1.PolicyRef) Rights {
	var rights Rights
	seen := map[question]bool{}
	for i, ref := range refs {
		// Nobody but an administrator may do it in every group.
		resource, in := schema.GroupResource{Group: "*", Resource: "*"}, namespace
		if kind, ok := api.KindCalled(ref.Kind); ok {
			resource = schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
			if !kind.Namespaced {
				in = ""
			}
		}
		what, name := fmt.Sprintf("spec.policyRefs[%d] needs", i), ref.Name
		if strings.Contains(name, "*") || name == "" {
			what, name = fmt.Sprintf("spec.policyRefs[%d] names policies by a pattern, which needs for all of them", i), ""
		}
		q := question{VerbExempt, resource.Group, resource.Resource, "", name}
		if seen[q] {
			continue
		}
		seen[q] = true
		if len(rights) == questions {
			many := &usher.Request{
				Phase: usher.Authorize, User: user, Namespace: namespace,
				Resource: schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, Access: &usher.Access{Verb: VerbExempt},
			}
			return Rights{{What: "an exemption that names too many policies to ask about each needs", Ask: many}}
		}
		help := ""
		switch {
		case in == "":
			help = "the verb exempt, of a ClusterRoleBinding: a RoleBinding gives rights on policies of its namespace alone"
		case namespace != "":
			help = "ask who administers the cluster for this right: the verb exempt"
		}
		rights = append(rights, Right{What: what, Help: help, Ask: &usher.Request{
			Phase: usher.Authorize, User: user, Namespace: in, Name: name,
			Resource: resource.WithVersion("*"),
			Access:   &usher.Access{Verb: VerbExempt},
		}})
	}
	return rights
}

// tooLong returns why an exemption ends too late to be written; empty for other policies.
func (g *guard) tooLong(object api.Object) string {
	spec, longest := exemption(object), g.options.LongestExemption
	if spec == nil || longest <= 0 || api.Suspended(object) {
		return ""
	}
	latest := g.options.Now().Add(longest)
	if !spec.ExpiresAt.After(latest.Add(clockSkew)) {
		return ""
	}
	return fmt.Sprintf("spec.expiresAt: an exemption may end at most %s after it is written, now %s, and this one ends %s (write an earlier time, and a later one when that has come)",
		inDays(longest), latest.UTC().Format(time.RFC3339), spec.ExpiresAt.UTC().Format(time.RFC3339))
}

// inDays returns a duration in days, if it is a number of whole days.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d%day != 0:
		return d.String()
	case d == day:
		return "1 day"
	}
	return fmt.Sprintf("%d days", d/day)
}

// ended returns a warning about an exemption that has expired when it is written.
func ended(object api.Object, now time.Time) []string {
	spec := exemption(object)
	if spec == nil || spec.ExpiresAt.After(now) {
		return nil
	}
	return []string{fmt.Sprintf("spec.expiresAt: it has expired already, at %s, and exempts nothing", spec.ExpiresAt.UTC().Format(time.RFC3339))}
}
