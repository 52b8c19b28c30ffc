package prove

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// mostAround is how many users, namespaces and sets of labels of namespaces requests have.
const mostAround = 6

// surroundings is what requests have besides an object.
type surroundings struct {
	users      []interpret.User
	namespaces []string
	labels     []map[string]string
}

// matched collects what the blocks of a rule mention, with what they match first, and what they exclude last.
func (g *generator) matched(r *syntax.Rule) {
	g.surroundings = surroundings{}
	for _, b := range append(append([]syntax.Block{r.Match.Block}, r.Match.Any...), r.Match.All...) {
		g.block(&b, false)
	}
	a := &g.surroundings
	a.users, a.labels = append(a.users, interpret.User{Name: "a"}), append(a.labels, nil)
	if !slices.Contains(a.namespaces, "default") {
		a.namespaces = append(a.namespaces, "default")
	}
	if r.Exclude != nil {
		for _, b := range append(append([]syntax.Block{r.Exclude.Block}, r.Exclude.Any...), r.Exclude.All...) {
			g.block(&b, true)
		}
	}
	a.users = a.users[:min(len(a.users), mostAround)]
	a.namespaces = a.namespaces[:min(len(a.namespaces), mostAround)]
	a.labels = a.labels[:min(len(a.labels), mostAround)]
}

// fitting returns a text that fits a pattern.
func fitting(pattern string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(pattern) }

func (g *generator) block(b *syntax.Block, excluded bool) {
	r := &b.Resources
	set := func(path []string, value any) {
		values := []any{value, "other"}
		if excluded {
			values = []any{absent{}, value, "other"}
		}
		g.add(path, values...)
	}
	if excluded && r.Name+strings.Join(r.Names, "") != "" {
		g.add([]string{"metadata", "name"}, "a")
	}
	for _, name := range append([]string{r.Name}, r.Names...) {
		if name != "" {
			g.add([]string{"metadata", "name"}, fitting(name))
		}
	}
	for key, value := range selected(r.Selector) {
		set([]string{"metadata", "labels", key}, value)
	}
	for key, value := range r.Annotations {
		set([]string{"metadata", "annotations", fitting(key)}, fitting(value))
	}
	a := &g.surroundings
	for _, namespace := range r.Namespaces {
		if name := fitting(namespace); !slices.Contains(a.namespaces, name) {
			a.namespaces = append(a.namespaces, name)
		}
	}
	if r.NamespaceSelector != nil {
		a.labels = append(a.labels, selected(r.NamespaceSelector))
	}
	a.users = append(a.users, usersOf(b)...)
}

// selected returns labels that a selector selects, or might.
func selected(s *metav1.LabelSelector) map[string]string {
	all := map[string]string{}
	if s == nil {
		return all
	}
	for key, value := range s.MatchLabels {
		all[fitting(key)] = fitting(value)
	}
	for _, e := range s.MatchExpressions {
		if value := append(slices.Clone(e.Values), "x")[0]; e.Operator != metav1.LabelSelectorOpDoesNotExist {
			all[e.Key] = value
		}
	}
	return all
}

// usersOf returns users that a block is for: one with all that it names, and one for each of its subjects.
func usersOf(b *syntax.Block) []interpret.User {
	if len(b.Roles)+len(b.ClusterRoles)+len(b.Subjects) == 0 {
		return nil
	}
	all := interpret.User{Name: "bound", Roles: b.Roles[:min(len(b.Roles), 1)], ClusterRoles: b.ClusterRoles[:min(len(b.ClusterRoles), 1)]}
	var each []interpret.User
	for _, s := range b.Subjects {
		var u interpret.User
		switch s.Kind {
		case "User":
			u.Name = fitting(s.Name)
		case "ServiceAccount":
			u.Name = "system:serviceaccount:" + fitting(s.Namespace) + ":" + fitting(s.Name)
		case "Group":
			u.Name, u.Groups = "member", []string{fitting(s.Name)}
		}
		if len(each) == 0 {
			all.Name, all.Groups = u.Name, u.Groups
		}
		each = append(each, u)
	}
	return append([]interpret.User{all}, each...)
}
