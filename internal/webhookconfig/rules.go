package webhookconfig

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
)

// A spot is a resource, or all of them, as rules of webhook configurations name it.
type spot struct {
	group, version, resource string
	scope                    admissionv1.ScopeType
}

// ruleset returns the fewest rules that match what is found, and nothing else: resources are
// joined only within a group and version, since a rule means every combination of what it
// lists. They are sorted.
func ruleset(found []*located) []admissionv1.RuleWithOperations {
	spots := spotsOf(found)
	subtract(spots)
	return join(spots)
}

// spotsOf returns the operations that are found for each resource.
func spotsOf(found []*located) map[spot][]usher.Operation {
	spots := map[spot][]usher.Operation{}
	for _, l := range found {
		for _, p := range l.places {
			s := spot{p.group, p.version, p.resource, admissionv1.AllScopes}
			switch {
			case l.scope != "":
				s.scope = admissionv1.ScopeType(l.scope)
			case l.Kind == "" && l.Namespaces != nil && p.group == "*":
				s.scope = admissionv1.NamespacedScope
			}
			for _, operation := range p.operations {
				if (len(l.Operations) == 0 || slices.Contains(l.Operations, operation)) && !slices.Contains(spots[s], operation) {
					spots[s] = append(spots[s], operation)
				}
			}
		}
	}
	return spots
}

// beyond returns the fewest rules that match what is found and none of the others does.
func beyond(found []*located, others []admissionv1.RuleWithOperations) []admissionv1.RuleWithOperations {
	spots := spotsOf(found)
	subtract(spots)
	for i := range others {
		other := &others[i]
		matched := func(operation usher.Operation) bool {
			return slices.Contains(other.Operations, admissionv1.OperationType(operation))
		}
		for _, resource := range other.Resources {
			all := spot{other.APIGroups[0], other.APIVersions[0], resource, *other.Scope}
			for s, operations := range spots {
				if all.covers(s) {
					spots[s] = slices.DeleteFunc(operations, matched)
				}
			}
		}
	}
	return join(spots)
}

// subtract removes what a wildcard matches anyhow: API servers reject rules that name both.
func subtract(spots map[spot][]usher.Operation) {
	wild := map[spot][]usher.Operation{}
	for s, operations := range spots {
		if s.group == "*" || s.version == "*" || strings.Contains(s.resource, "*") {
			wild[s] = slices.Clone(operations)
		}
	}
	for s, operations := range spots {
		for all, covered := range wild {
			if s != all && all.covers(s) {
				operations = slices.DeleteFunc(operations, func(operation usher.Operation) bool {
					return slices.Contains(covered, operation)
				})
			}
		}
		spots[s] = operations
	}
}

// covers reports whether s matches whatever other matches.
func (s spot) covers(other spot) bool {
	resource, subresource, _ := strings.Cut(s.resource, "/")
	otherResource, otherSubresource, _ := strings.Cut(other.resource, "/")
	return oneOf(s.group, other.group) && oneOf(s.version, other.version) && oneOf(resource, otherResource) && oneOf(subresource, otherSubresource) &&
		(s.scope == admissionv1.AllScopes || s.scope == other.scope)
}

// oneOf reports whether a word of a rule matches another.
func oneOf(word, other string) bool { return word == "*" || word == other }

// join makes one rule of all resources of a group and version that share operations.
func join(spots map[spot][]usher.Operation) []admissionv1.RuleWithOperations {
	type sharing struct {
		group, version, operations string
		scope                      admissionv1.ScopeType
	}
	resources := map[sharing][]string{}
	for s, operations := range spots {
		if len(operations) == 0 {
			continue
		}
		words := make([]string, len(operations))
		for i, operation := range operations {
			words[i] = string(operation)
		}
		slices.Sort(words)
		key := sharing{s.group, s.version, strings.Join(words, ","), s.scope}
		resources[key] = append(resources[key], s.resource)
	}
	keys := make([]sharing, 0, len(resources))
	for key := range resources {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b sharing) int {
		return cmp.Or(
			cmp.Compare(a.group, b.group),
			cmp.Compare(a.version, b.version),
			cmp.Compare(a.operations, b.operations),
			cmp.Compare(a.scope, b.scope),
		)
	})
	rules := make([]admissionv1.RuleWithOperations, len(keys))
	for i, key := range keys {
		slices.Sort(resources[key])
		for word := range strings.SplitSeq(key.operations, ",") {
			rules[i].Operations = append(rules[i].Operations, admissionv1.OperationType(word))
		}
		rules[i].Rule = admissionv1.Rule{
			APIGroups: []string{key.group}, APIVersions: []string{key.version},
			Resources: resources[key], Scope: &key.scope,
		}
	}
	return rules
}
