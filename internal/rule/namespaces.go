package rule

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	usher "github.com/usher-dev/usher"
)

// nameLabel is the label with the name that API servers give each namespace.
const nameLabel = "kubernetes.io/metadata.name"

// Namespaces is a set of namespaces by name. The zero value has all.
type Namespaces struct {
	// Names are sorted: those in the set with Only, and those that are not in it otherwise.
	Names []string
	Only  bool
}

// NamespacesOf returns the namespaces that a selector of namespaces may select, by the label with the name that
// API servers set and nobody can change. What depends on other labels, it may select.
func NamespacesOf(selector labels.Selector) Namespaces {
	var set Namespaces
	if selector == nil {
		return set
	}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if r.Key() != nameLabel {
			continue
		}
		names := slices.Sorted(slices.Values(r.Values().UnsortedList()))
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			set = set.And(Namespaces{Names: names, Only: true})
		case selection.NotIn, selection.NotEquals:
			set = set.And(Namespaces{Names: names})
		case selection.DoesNotExist:
			set = Namespaces{Only: true}
		case selection.Exists, selection.GreaterThan, selection.LessThan:
		}
	}
	return set
}

// All reports whether every namespace is in the set.
func (n Namespaces) All() bool { return !n.Only && len(n.Names) == 0 }

// Has reports whether a namespace is in the set.
func (n Namespaces) Has(name string) bool {
	_, named := slices.BinarySearch(n.Names, name)
	return named == n.Only
}

// And returns the namespaces that are in both sets.
func (n Namespaces) And(other Namespaces) Namespaces {
	switch {
	case n.All():
		return other
	case other.All():
		return n
	case n.Only:
		return Namespaces{Names: slices.DeleteFunc(slices.Clone(n.Names), func(name string) bool { return !other.Has(name) }), Only: true}
	case other.Only:
		return other.And(n)
	}
	return Namespaces{Names: union(n.Names, other.Names)}
}

// Or returns the namespaces that are in one of the sets.
func (n Namespaces) Or(other Namespaces) Namespaces {
	not := n.not().And(other.not())
	return not.not()
}

// AnyOf returns the namespaces that are in one of the sets.
func AnyOf(sets []Namespaces) Namespaces {
	all := Namespaces{Only: true}
	for i := range sets {
		if sets[i].Only {
			all.Names = append(all.Names, sets[i].Names...)
		}
	}
	slices.Sort(all.Names)
	all.Names = slices.Clip(slices.Compact(all.Names))
	for i := range sets {
		if !sets[i].Only {
			all = all.Or(sets[i])
		}
	}
	return all
}

func (n Namespaces) not() Namespaces { return Namespaces{Names: n.Names, Only: !n.Only} }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// String is the set in a few words, such as "all namespaces but kube-system".
func (n Namespaces) String() string {
	switch names := strings.Join(n.Names, ", "); {
	case n.All():
		return "all namespaces"
	case n.Only && names == "":
		return "no namespace"
	case n.Only:
		return names
	default:
		return fmt.Sprintf("all namespaces but %s", names)
	}
}

// A CoveredResource are the requests for an endpoint.
type CoveredResource struct {
	ResourceRule

	// Namespaces are those of the objects that are in one.
	Namespaces Namespaces
	// Tenants says that objects in no namespace are not covered: the policies are those of namespaces.
	Tenants bool
}

// Matches reports whether r is covered. A namespace is in itself.
func (c *CoveredResource) Matches(r *usher.Request) bool {
	if r.Namespace == "" {
		return !c.Tenants && c.ResourceRule.Matches(r)
	}
	return c.Namespaces.Has(r.Namespace) && c.ResourceRule.Matches(r)
}

// String is one stable line.
func (c *CoveredResource) String() string {
	if c.Namespaces.All() && !c.Tenants {
		return c.ResourceRule.String()
	}
	s := c.ResourceRule.String() + " in " + c.Namespaces.String()
	if !c.Tenants {
		s += ", and in none"
	}
	return s
}
