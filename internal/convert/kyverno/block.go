package kyverno

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// block returns a term that holds if a block does, with the kinds of targets if there are any, and whether it
// depends on the user. The metadata are those of the object of the request, or if before is true of the object
// before an update, as if it were created.
func (s *selection) block(b *syntax.Block, targets []target, metadata string, before bool) (t term, users bool, err error) {
	r := &b.Resources
	terms := []term{kindsTerm(targets)}
	if len(r.Operations) > 0 {
		operation := "request.operation"
		if before {
			operation = convert.Quote("CREATE")
		}
		terms = append(terms, in(operation, r.Operations))
	}
	name := fmt.Sprintf("%s.?name.orValue(%s.?generateName.orValue(''))", metadata, metadata)
	if r.Name != "" {
		terms = append(terms, like(name, r.Name))
	}
	if len(r.Names) > 0 {
		terms = append(terms, likeAny(name, r.Names))
	}
	if len(r.Namespaces) > 0 {
		terms = append(terms, likeAny("request.?namespace.orValue('')", r.Namespaces))
	}
	if r.NamespaceSelector != nil {
		selected, err := selects(r.NamespaceSelector, "namespaceObject.metadata.?labels", b.Field+".resources.namespaceSelector")
		if err != nil {
			return no, false, err
		}
		// Objects of the cluster have no namespace, whose labels then are none.
		none, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector)
		if err != nil {
			return no, false, refuse(b.Field+".resources.namespaceSelector", err.Error(), "correct it")
		}
		terms = append(terms, compare("request.kind.kind", "!=", "'Namespace'"), when(compare("namespaceObject", "==", "null"), truth(none.Matches(labels.Set{})), selected))
	}
	if r.Selector != nil {
		selected, err := selects(r.Selector, metadata+".?labels", b.Field+".resources.selector")
		if err != nil {
			return no, false, err
		}
		terms = append(terms, selected)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		terms = append(terms, entry(metadata+".?annotations", key, r.Annotations[key]))
	}
	if len(b.Subjects) > 0 {
		terms = append(terms, ofUsers(b.Subjects))
	}
	if len(b.Roles)+len(b.ClusterRoles) > 0 {
		terms = append(terms, s.roles(b))
	}
	return all(terms...), len(b.Subjects)+len(b.Roles)+len(b.ClusterRoles) > 0, nil
}

// in returns a term that holds if a text is one of some.
func in(text string, values []string) term {
	if len(values) == 1 {
		return compare(text, "==", convert.Quote(values[0]))
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = convert.Quote(v)
	}
	return compare(text, "in", "["+strings.Join(quoted, ", ")+"]")
}

// likeAny returns a term that holds if a text fits one of some patterns.
func likeAny(text string, patterns []string) term {
	var exact []string
	var terms []term
	for _, p := range patterns {
		if strings.ContainsAny(p, "*?") {
			terms = append(terms, like(text, p))
		} else {
			exact = append(exact, p)
		}
	}
	if len(exact) > 0 {
		terms = append([]term{in(text, exact)}, terms...)
	}
	return some(terms...)
}

// entry returns a term that holds if labels or annotations have a key with a value, each with wildcards.
func entry(at, key, value string) term {
	if !strings.ContainsAny(key, "*?") {
		fits := like("v", value)
		if fits == yes {
			return call(at + "[?" + convert.Quote(key) + "].hasValue()")
		}
		if value != "" && fits.operator == "==" {
			return compare(at+"[?"+convert.Quote(key)+"].orValue('')", "==", convert.Quote(value))
		}
		return call(at + "[?" + convert.Quote(key) + "].optMap(v, " + fits.text + ").orValue(false)")
	}
	return call(at + ".orValue({}).exists(k, v, " + all(like("k", key), like("v", value)).text + ")")
}

// selects returns a term that holds if a selector selects labels.
func selects(s *metav1.LabelSelector, at, field string) (term, error) {
	var terms []term
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		terms = append(terms, entry(at, key, s.MatchLabels[key]))
	}
	for i, e := range s.MatchExpressions {
		label := at + "[?" + convert.Quote(e.Key) + "]"
		if wild(append(slices.Clone(e.Values), e.Key)) {
			return no, refuse(fmt.Sprintf("%s.matchExpressions[%d]", field, i), "it has wildcards, which mean nothing there", "correct it")
		}
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			terms = append(terms, all(call(label+".hasValue()"), in(label+".value()", e.Values)))
		case metav1.LabelSelectorOpNotIn:
			terms = append(terms, some(not(call(label+".hasValue()")), not(in(label+".value()", e.Values))))
		case metav1.LabelSelectorOpExists:
			terms = append(terms, call(label+".hasValue()"))
		case metav1.LabelSelectorOpDoesNotExist:
			terms = append(terms, not(call(label+".hasValue()")))
		}
	}
	return all(terms...), nil
}

// ofUsers returns a term that holds for requests of some users.
func ofUsers(subjects []syntax.Subject) term {
	var users, groups []string
	for i := range subjects {
		switch s := &subjects[i]; s.Kind {
		case "User":
			users = append(users, s.Name)
		case "ServiceAccount":
			users = append(users, "system:serviceaccount:"+s.Namespace+":"+s.Name)
		case "Group":
			groups = append(groups, s.Name)
		}
	}
	var terms []term
	if len(users) > 0 {
		terms = append(terms, likeAny("request.userInfo.?username.orValue('')", users))
	}
	if len(groups) > 0 {
		terms = append(terms, call("request.userInfo.?groups.orValue([]).exists(g, "+likeAny("g", groups).text+")"))
	}
	return some(terms...)
}
