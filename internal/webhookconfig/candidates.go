package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// candidateTimeout is how long requests wait for a server that does not answer.
	candidateTimeout = 1
	// maxCandidateNamespaces limits the list of namespaces in a condition. Candidates of others see what is
	// sent anyway.
	maxCandidateNamespaces = 1000
)

// candidates returns the entries for candidates alone, given those of policies in force in the same phase:
// they get what these do not get, and an answer never matters.
func (e *Applier) candidates(phase usher.Phase, c *rule.CandidateCoverage, inForce []Entry) ([]Entry, error) {
	if c == nil {
		return nil, nil
	}
	var all []Entry
	for _, of := range []struct {
		part       rule.Part
		coverage   rule.Coverage
		namespaces []string
	}{{rule.Candidates, c.Cluster, nil}, {rule.TenantCandidates, c.Namespaced, c.Namespaces}} {
		at := rule.Entry{Phase: phase}
		found, _, err := e.locate(of.coverage.Of(at), rule.Objects)
		if err != nil {
			return nil, err
		}
		found = append(found, endpointsOf(of.coverage.Resources(at))...)
		entry := Entry{
			Entry: rule.Entry{Phase: phase, Part: of.part}, Conditions: e.conditions(found),
			FailurePolicy: admissionv1.Ignore, TimeoutSeconds: candidateTimeout, Reinvocation: admissionv1.NeverReinvocationPolicy,
		}
		if of.part == rule.TenantCandidates {
			entry.Conditions = append(entry.Conditions, inNamespaces(of.namespaces))
		}
		var covering []admissionv1.RuleWithOperations
		for i := range inForce {
			if at := inForce[i].Entry; at.Versions != "" || at.Part != rule.Objects && at.Part != rule.Once {
				continue
			}
			if own := e.own(&inForce[i]); len(own) > 0 {
				entry.Conditions = append(entry.Conditions, unlessSent(inForce[i].Rules, own))
				continue
			}
			covering = append(covering, inForce[i].Rules...)
		}
		entry.Rules = beyond(found, covering)
		if partly := overlapping(entry.Rules, covering); len(partly) > 0 && len(entry.Rules) > 0 {
			entry.Conditions = append(entry.Conditions, unlessSent(partly, nil))
		}
		if len(entry.Rules) > 0 {
			all = append(all, entry)
		}
	}
	return all, nil
}

// inNamespaces is the condition that the object is in one of namespaces.
func inNamespaces(namespaces []string) admissionv1.MatchCondition {
	names := slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 })
	names = names[:min(len(names), maxCandidateNamespaces)]
	return admissionv1.MatchCondition{
		Name:       "namespaces-with-candidates",
		Expression: fmt.Sprintf(`has(request.namespace) && request.namespace in ['%s']`, strings.Join(names, "', '")),
	}
}

// overlapping returns those of the rules that match some of what others match.
func overlapping(others, rules []admissionv1.RuleWithOperations) []admissionv1.RuleWithOperations {
	return slices.DeleteFunc(slices.Clone(rules), func(r admissionv1.RuleWithOperations) bool {
		return !slices.ContainsFunc(others, func(other admissionv1.RuleWithOperations) bool { return overlap(&r, &other) })
	})
}

func overlap(a, b *admissionv1.RuleWithOperations) bool {
	either := func(x, y string) bool { return oneOf(x, y) || oneOf(y, x) }
	if !either(a.APIGroups[0], b.APIGroups[0]) || !slices.ContainsFunc(a.Operations, func(o admissionv1.OperationType) bool { return slices.Contains(b.Operations, o) }) {
		return false
	}
	for _, x := range a.Resources {
		for _, y := range b.Resources {
			resource, subresource, _ := strings.Cut(x, "/")
			other, otherSubresource, _ := strings.Cut(y, "/")
			if either(resource, other) && either(subresource, otherSubresource) {
				return true
			}
		}
	}
	return false
}

// unlessSent is the condition that a request is not sent to an entry with these rules and conditions.
func unlessSent(rules []admissionv1.RuleWithOperations, conditions []admissionv1.MatchCondition) admissionv1.MatchCondition {
	var matches []string
	for i := range rules {
		matches = append(matches, matchOf(&rules[i]))
	}
	sent, name := []string{"(" + strings.Join(matches, " || ") + ")"}, "not-sent-anyway"
	for _, c := range conditions {
		sent = append(sent, "("+c.Expression+")")
		name = "not-sent-anyway-by-conditions"
	}
	return admissionv1.MatchCondition{Name: name, Expression: "!(" + strings.Join(sent, " && ") + ")"}
}

// matchOf is a rule as an expression, for all versions of its resources.
func matchOf(r *admissionv1.RuleWithOperations) string {
	var operations, resources []string
	for _, o := range r.Operations {
		operations = append(operations, "'"+string(o)+"'")
	}
	for _, name := range r.Resources {
		resource, subresource, sub := strings.Cut(name, "/")
		var parts []string
		if resource != "*" {
			parts = append(parts, "request.resource.resource == '"+resource+"'")
		}
		switch {
		case !sub:
			parts = append(parts, "!(has(request.subResource) && request.subResource != '')")
		case subresource != "*":
			parts = append(parts, "has(request.subResource) && request.subResource == '"+subresource+"'")
		}
		if len(parts) == 0 {
			parts = []string{"true"}
		}
		resources = append(resources, "("+strings.Join(parts, " && ")+")")
	}
	match := "request.operation in [" + strings.Join(operations, ", ") + "] && (" + strings.Join(resources, " || ") + ")"
	if group := r.APIGroups[0]; group != "*" {
		match = "request.resource.group == '" + group + "' && " + match
	}
	if r.Scope != nil && *r.Scope == admissionv1.NamespacedScope {
		match += " && has(request.namespace) && request.namespace != ''"
	}
	return "(" + match + ")"
}
