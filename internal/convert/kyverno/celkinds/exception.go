package celkinds

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/convert"
)

// An exception is a PolicyException.
type exception struct {
	of   *convert.Foreign
	refs []policyRef
	// condition holds if the exception is for a request.
	condition string
	// images and values are what the policy allows beyond what it says; it does not apply at all without any.
	images, values []string
}

type policyRef struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

func readException(f *convert.Foreign) (*exception, error) {
	var m struct {
		Spec map[string]any `json:"spec"`
	}
	var spec struct {
		PolicyRefs      []policyRef                  `json:"policyRefs"`
		MatchConditions []admissionv1.MatchCondition `json:"matchConditions"`
		Images          []string                     `json:"images"`
		AllowedValues   []string                     `json:"allowedValues"`
		ReportResult    string                       `json:"reportResult"`
	}
	if err := recode(f.Object, &m, false); err != nil {
		return nil, err
	}
	if err := recode(m.Spec, &spec, true); err != nil {
		return nil, err
	}
	e := &exception{of: f, refs: spec.PolicyRefs, images: spec.Images, values: spec.AllowedValues, condition: "true"}
	var all []string
	for _, c := range spec.MatchConditions {
		text := strings.TrimSpace(c.Expression)
		if len(spec.MatchConditions) > 1 {
			text = within(text)
		}
		all = append(all, text)
	}
	if len(all) > 0 {
		e.condition = strings.Join(all, " && ")
	}
	return e, nil
}

// within returns an expression in parentheses. A comment may be at its end.
func within(text string) string {
	if strings.Contains(text, "//") {
		text += "\n"
	}
	return "(" + text + ")"
}

// isFor reports whether an exception is for a policy.
func (e *exception) isFor(policy *convert.Foreign) bool {
	of := policy.Ref()
	if in := namespaceOf(policy); in != "" && in != cmp.Or(e.of.Ref().Namespace, metav1.NamespaceDefault) {
		return false
	}
	return slices.Contains(e.refs, policyRef{Name: of.Name, Kind: of.Kind})
}

// whole reports whether a policy does not apply at all to requests for which the exception is.
func (e *exception) whole() bool { return len(e.images)+len(e.values) == 0 }

// except adds a condition for each exception that is for the policy as a whole.
func (c *conversion) except(s *specification) {
	for _, e := range c.exceptions {
		if !e.isFor(c.i.Of) || !e.whole() {
			continue
		}
		c.note("", "the exception "+e.of.Ref().Name+" is a condition of the policy, which ends on no day", "write a ClusterPolicyExemption, which has a reason, an owner and an end")
		s.MatchConditions = append(s.MatchConditions, admissionv1.MatchCondition{
			Name: "no-exception-" + e.of.Ref().Name, Expression: "!" + within(e.condition),
		})
	}
}

// allowed returns an expression for what exceptions allow, given what each does.
func (c *conversion) allowed(values func(*exception) []string) string {
	var parts []string
	for _, e := range c.exceptions {
		own := values(e)
		if !e.isFor(c.i.Of) || len(own) == 0 {
			continue
		}
		var quoted []string
		for _, v := range own {
			quoted = append(quoted, convert.Quote(v))
		}
		list := "[" + strings.Join(quoted, ", ") + "]"
		if e.condition != "true" {
			list = within(within(e.condition) + " ? " + list + " : []")
		}
		parts = append(parts, list)
	}
	if len(parts) == 0 {
		return "[]"
	}
	return strings.Join(parts, " + ")
}
