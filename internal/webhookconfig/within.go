package webhookconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/internal/rule"
)

const (
	// maxNamespaces bounds the list of namespaces in a condition. With more than that it is
	// cheaper to ask.
	maxNamespaces = 100
	// maxReaches bounds how many sets of namespaces a condition tells apart.
	maxReaches = 16
	// maxTerms bounds the characters of what a condition says of the policies of the cluster, and of those of
	// namespaces.
	maxTerms = 16 << 10
)

// A reach is where objects are: in some namespaces, and in none unless policies of namespaces alone
// are for them. The zero value is everywhere.
type reach struct {
	rule.Namespaces

	tenants bool
}

// key tells reaches apart: it is the expression of one that a condition can name.
func (r reach) key() string {
	if len(r.Names) > maxNamespaces {
		return fmt.Sprintf("%t %t %q", r.Only, r.tenants, r.Names)
	}
	return r.expression()
}

// expression is the reach in CEL: the namespace is absent rather than empty. A namespace is in itself.
func (r reach) expression() string {
	names := slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool {
		// Others do not exist, and must not become part of an expression.
		return len(validation.IsDNS1123Label(name)) > 0
	})
	list := "[]"
	if len(names) > 0 {
		list = "['" + strings.Join(names, "', '") + "']"
	}
	switch {
	case r.Only && r.tenants:
		return "has(request.namespace) && request.namespace in " + list
	case r.Only:
		return "!has(request.namespace) || request.namespace in " + list
	case r.tenants:
		return "has(request.namespace) && !(request.namespace in " + list + ")"
	}
	return "!(has(request.namespace) && request.namespace in " + list + ")"
}

func (r reach) everywhere() bool { return r.All() && !r.tenants }

// An area are rules with one reach.
type area struct {
	reach

	rules []admissionv1.RuleWithOperations
}

// within returns the condition that an object is where policies are for it, if it excludes anything.
// Policies of namespaces change nothing about which requests are sent for those of the cluster.
func within(found []*located) []admissionv1.MatchCondition {
	byKind := map[bool][]*located{}
	for _, l := range found {
		byKind[l.within.tenants] = append(byKind[l.within.tenants], l)
	}
	cluster := bounded(areas(byKind[false], nil), reach{})
	var anywhere []admissionv1.RuleWithOperations
	for i := range cluster {
		if cluster[i].everywhere() {
			anywhere = append(anywhere, cluster[i].rules...)
		}
	}
	tenants := areas(byKind[true], anywhere)
	tenants = bounded(tenants, reach{kept(cluster, tenants), true})
	var terms []string
	switch all := slices.Concat(cluster, tenants); {
	case len(all) == 0 || len(all) == 1 && all[0].everywhere():
		return nil
	case len(all) == 1:
		terms = []string{all[0].expression()}
	case len(cluster) > 0:
		of := text(cluster)
		if of == "" {
			return nil
		}
		terms = append(terms, of)
	}
	if len(cluster) > 0 && len(tenants) > 0 || len(tenants) > 1 {
		terms = append(terms, text(tenants))
	}
	return []admissionv1.MatchCondition{{Name: condition, Expression: strings.Join(terms, " || ")}}
}

// areas returns the rules for what is found by their reach, in a stable order, without what others match.
func areas(found []*located, others []admissionv1.RuleWithOperations) []area {
	byReach := map[string][]*located{}
	for _, l := range found {
		key := l.within.key()
		byReach[key] = append(byReach[key], l)
	}
	var all []area
	for _, key := range slices.Sorted(maps.Keys(byReach)) {
		if rules := beyond(byReach[key], others); len(rules) > 0 {
			all = append(all, area{byReach[key][0].within, rules})
		}
	}
	return all
}

// bounded returns areas that a condition can tell apart, with most in place of a reach that names too many
// namespaces.
func bounded(all []area, most reach) []area {
	if len(all) > maxReaches {
		all = []area{joined(all)}
	}
	for i := range all {
		if len(all[i].Names) > maxNamespaces {
			all[i].reach = most
		}
	}
	return all
}

// joined returns the rules of all areas, wherever one of them is.
func joined(all []area) area {
	one := area{reach: reach{tenants: true}}
	sets := make([]rule.Namespaces, len(all))
	for i := range all {
		sets[i] = all[i].Namespaces
		one.tenants = one.tenants && all[i].tenants
		one.rules = append(one.rules, all[i].rules...)
	}
	one.Namespaces = rule.AnyOf(sets)
	return one
}

// kept returns the namespaces that requests for tenants are sent from if these are too many to name: not
// those that all policies of the cluster exclude, unless a tenant is there.
func kept(cluster, tenants []area) rule.Namespaces {
	excluded := rule.Namespaces{Names: []string{metav1.NamespaceSystem}}
	if len(cluster) > 0 {
		if all := joined(cluster).reach; !all.Only {
			excluded = excluded.And(all.Namespaces)
		}
	}
	for i := range tenants {
		excluded = excluded.Or(tenants[i].Namespaces)
	}
	return excluded
}

// text is areas in CEL; empty if they are everywhere.
func text(all []area) string {
	terms := make([]string, len(all))
	for i := range all {
		matches := make([]string, len(all[i].rules))
		for j := range all[i].rules {
			matches[j] = matchOf(&all[i].rules[j])
		}
		terms[i] = "(" + strings.Join(matches, " || ") + ")"
		if !all[i].everywhere() {
			terms[i] = "(" + terms[i] + " && (" + all[i].expression() + "))"
		}
	}
	if s := strings.Join(terms, " || "); len(s) <= maxTerms {
		return s
	}
	one := bounded([]area{joined(all)}, reach{tenants: all[0].tenants})
	if one[0].everywhere() {
		return ""
	}
	return "(" + one[0].expression() + ")"
}
