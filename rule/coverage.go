package rule

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Coverage is what has to be asked about so that no rule misses a request: what doors
// are registered for. Equal sets of rules have equal coverages.
type Coverage struct {
	Mutate, Validate []Covered
}

// Covered are the requests for the objects of one kind.
type Covered struct {
	// APIVersion and Kind are both empty for objects of every kind.
	APIVersion, Kind string
	// Operations are sorted; none means all.
	Operations []usher.Operation
	// Namespaces are those of the objects, sorted; nil means every namespace, and objects
	// that are in none.
	Namespaces []string
}

// Cover returns what rules can match, sorted, each operation on a kind in one place only.
//
// Built-in rules, which have no policy, complete what others do and cover nothing. No rule
// covers what to change about an object that is deleted. A rule for objects of every kind
// covers CONNECT only if it names that operation: the requests carry options and no
// object, and who writes a rule for all objects means objects.
func Cover(rules []Rule) Coverage {
	mutate, validate := reaches{}, reaches{}
	for i := range rules {
		r := &rules[i]
		if r.Policy == (usher.PolicyRef{}) {
			continue
		}
		switch r.Phase {
		case usher.Mutate:
			mutate.add(&r.Match)
		case usher.Validate:
			validate.add(&r.Match)
		case usher.Authorize:
		}
	}
	maps.DeleteFunc(mutate, func(key reachKey, _ *reach) bool { return key.operation == usher.Delete })
	return Coverage{Mutate: mutate.covered(), Validate: validate.covered()}
}

// reaches tells for each kind and operation how far rules reach.
type reaches map[reachKey]*reach

type reachKey struct {
	apiVersion, kind string
	operation        usher.Operation
}

// A reach is a set of namespaces, or all of them and what is in none.
type reach struct {
	everywhere bool
	namespaces map[string]bool
}

func (rs reaches) add(m *Match) {
	operations := m.Operations
	if len(operations) == 0 {
		operations = usher.Operations()
	}
	for _, operation := range operations {
		if len(m.Selectors) == 0 && (operation != usher.Connect || len(m.Operations) > 0) {
			rs.extend(reachKey{operation: operation}, m.Namespace)
		}
		for i := range m.Selectors {
			sel := &m.Selectors[i]
			if !sel.never() && (sel.Namespace == "" || m.Namespace == "" || sel.Namespace == m.Namespace) {
				rs.extend(reachKey{sel.APIVersion, sel.Kind, operation}, cmp.Or(m.Namespace, sel.Namespace))
			}
		}
	}
}

// never reports whether no object can be selected.
func (sel *Selector) never() bool {
	return sel.APIVersion == "" || sel.Kind == "" || strings.Contains(sel.APIVersion+sel.Kind, "*") ||
		sel.Never != "" && sel.Name == ""
}

func (rs reaches) extend(key reachKey, namespace string) {
	if !slices.Contains(usher.Operations(), key.operation) {
		return
	}
	r := rs[key]
	if r == nil {
		r = &reach{namespaces: map[string]bool{}}
		rs[key] = r
	}
	if namespace == "" {
		r.everywhere = true
		return
	}
	r.namespaces[namespace] = true
}

// covered joins the operations of a kind that reach equally far.
func (rs reaches) covered() []Covered {
	var all []Covered
	for key, r := range rs {
		var namespaces []string
		if !r.everywhere {
			namespaces = slices.Sorted(maps.Keys(r.namespaces))
		}
		i := slices.IndexFunc(all, func(c Covered) bool {
			return c.APIVersion == key.apiVersion && c.Kind == key.kind && slices.Equal(c.Namespaces, namespaces)
		})
		if i < 0 {
			i = len(all)
			all = append(all, Covered{APIVersion: key.apiVersion, Kind: key.kind, Namespaces: namespaces})
		}
		all[i].Operations = append(all[i].Operations, key.operation)
	}
	for i := range all {
		slices.Sort(all[i].Operations)
	}
	slices.SortFunc(all, func(a, b Covered) int {
		return cmp.Or(
			cmp.Compare(a.APIVersion, b.APIVersion),
			cmp.Compare(a.Kind, b.Kind),
			slices.Compare(a.Namespaces, b.Namespaces),
		)
	})
	return all
}

// String is one stable line, such as "CREATE, UPDATE of v1 Pod in shop".
func (c Covered) String() string {
	s := "every operation"
	if len(c.Operations) > 0 {
		s = oneOf(c.Operations)
	}
	if c.Kind == "" {
		s += " of every object"
	} else {
		s += " of " + c.APIVersion + " " + c.Kind
	}
	if c.Namespaces != nil {
		s += " in " + strings.Join(c.Namespaces, ", ")
	}
	return s
}
