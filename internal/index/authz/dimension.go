package authz

import (
	"slices"

	"github.com/usher-dev/usher/internal/rule/authz"
)

// A dimension selects rules by one value of a request. The sets contain all rules that match, and
// possibly others.
type dimension struct {
	// any are the rules for every value, open those whose values depend on the request.
	any, open set
	exact     map[string]*set
	// prefixes and suffixes are those of patterns; the rest of a pattern is not compared.
	prefixes, suffixes affixes
	// all are the rules that match a request for every value.
	all set
}

// affixes are sets by the first or last characters of a value.
type affixes struct {
	sets map[string]*set
	// lengths are the distinct lengths of the keys.
	lengths []int
}

func (a *affixes) add(text string, id int32) {
	if !slices.Contains(a.lengths, len(text)) {
		a.lengths = append(a.lengths, len(text))
	}
	into(&a.sets, text).add(id)
}

// into returns the set of a key, and creates it if necessary.
func into[K comparable](sets *map[K]*set, key K) *set {
	s := (*sets)[key]
	if s == nil {
		s = &set{}
		if *sets == nil {
			*sets = map[K]*set{}
		}
		(*sets)[key] = s
	}
	return s
}

// add adds a rule to the sets of its values.
func (d *dimension) add(id int32, s *authz.Set, e authz.Effect) {
	if s.Any || e != authz.Allow && len(s.Patterns) > 0 {
		d.all.add(id)
	}
	if s.Any {
		d.any.add(id)
		return
	}
	for i := range s.Patterns {
		d.addPattern(id, &s.Patterns[i])
	}
}

func (d *dimension) addPattern(id int32, p *authz.Pattern) {
	switch {
	case p.Template != nil:
		d.open.add(id)
	case !p.Star:
		into(&d.exact, p.Prefix).add(id)
	case p.Prefix != "":
		d.prefixes.add(p.Prefix, id)
	case p.Suffix != "":
		d.suffixes.add(p.Suffix, id)
	default:
		d.any.add(id)
	}
}

func (d *dimension) arrange(words int) {
	for _, s := range []*set{&d.any, &d.open, &d.all} {
		s.arrange(words)
	}
	for _, sets := range []map[string]*set{d.exact, d.prefixes.sets, d.suffixes.sets} {
		for _, s := range sets {
			s.arrange(words)
		}
	}
}

func (d *dimension) collect(w *work, v authz.Value) {
	switch v.Extent {
	case authz.All:
		w.use(&d.all)
	case authz.Unknown:
		w.use(&d.any)
	case authz.One:
		w.use(&d.any)
		d.collectText(w, v.Text)
	}
}

// collectText adds the sets for one value, except the set for every value.
func (d *dimension) collectText(w *work, text string) {
	w.use(&d.open)
	w.use(d.exact[text])
	for _, n := range d.prefixes.lengths {
		if n <= len(text) {
			w.use(d.prefixes.sets[text[:n]])
		}
	}
	for _, n := range d.suffixes.lengths {
		if n <= len(text) {
			w.use(d.suffixes.sets[text[len(text)-n:]])
		}
	}
}

// resources are a dimension of two parts.
type resources struct {
	every set
	exact map[authz.Resource]*set
	// rules are all rules for resources.
	rules set
}

func (d *resources) add(id int32, all []authz.Resource) {
	d.rules.add(id)
	for _, r := range all {
		if r.Every {
			d.every.add(id)
		} else {
			into(&d.exact, r).add(id)
		}
	}
}

func (d *resources) arrange(words int) {
	d.every.arrange(words)
	d.rules.arrange(words)
	for _, s := range d.exact {
		s.arrange(words)
	}
}

func (d *resources) collect(w *work, q *authz.Query) {
	if q.Resource.Extent != authz.One || q.Subresource == "*" {
		w.use(&d.rules)
		return
	}
	w.use(&d.every)
	w.use(d.exact[authz.Resource{Name: q.Resource.Text, Subresource: q.Subresource}])
	if q.Subresource == "" {
		return
	}
	for _, r := range []authz.Resource{
		{Name: q.Resource.Text, Subresource: "*"},
		{Name: "*", Subresource: q.Subresource},
		{Name: "*", Subresource: "*"},
	} {
		w.use(d.exact[r])
	}
}

// add adds a rule to every dimension.
func (ix *Index) add(id int32, r *authz.Rule) {
	effect := r.Policy.Effect
	for i := range r.Policy.Subjects {
		ix.addSubject(id, &r.Policy.Subjects[i])
	}
	ix.verbs.add(id, &r.Verbs, effect)
	if r.URLs != nil {
		ix.paths.add(id, r.URLs, effect)
		return
	}
	ix.resources.add(id, r.Resources)
	ix.groups.add(id, &r.Groups, effect)
	ix.names.add(id, &r.Names, effect)
	if r.Own != "" {
		into(&ix.namespaces.exact, r.Own).add(id)
		return
	}
	ix.namespaces.add(id, &r.Namespaces, effect)
}

const account = "system:serviceaccount:"

func (ix *Index) addSubject(id int32, s *authz.Subject) {
	for i := range s.Users {
		ix.users.addPattern(id, &s.Users[i])
	}
	for i := range s.Groups {
		ix.memberships.addPattern(id, &s.Groups[i])
	}
	for i := range s.ServiceAccounts {
		a := &s.ServiceAccounts[i]
		p := authz.Pattern{Prefix: account + a.Namespace.Prefix, Star: true}
		if !a.Namespace.Star {
			p.Prefix += ":" + a.Name.Prefix
			p.Star = a.Name.Star
		}
		ix.users.addPattern(id, &p)
	}
}

func (ix *Index) collectSubjects(w *work, q *authz.Query) {
	ix.users.collect(w, authz.Value{Text: q.User.Name})
	if len(q.User.Groups) > 0 {
		w.use(&ix.memberships.any)
	}
	for _, group := range q.User.Groups {
		ix.memberships.collectText(w, group)
	}
}
