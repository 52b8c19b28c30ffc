package authz

import usher "github.com/usher-dev/usher"

// Grant returns what the rule allows. It reports false if lists cannot say it: they have
// no patterns and no versions.
func (r *Rule) Grant() (usher.Grant, bool) {
	verbs, ok := literals(&r.Verbs, exactly)
	if !ok {
		return usher.Grant{}, false
	}
	if r.URLs != nil {
		paths, ok := literals(r.URLs, orPrefix)
		return usher.Grant{Verbs: verbs, Paths: paths}, ok
	}
	groups, groupsOK := literals(&r.Groups, exactly)
	names, namesOK := literals(&r.Names, exactly)
	if r.Names.Any {
		names = nil
	}
	g := usher.Grant{Verbs: verbs, Groups: groups, Names: names}
	for _, resource := range r.Resources {
		if resource.Subresource == "*" {
			return usher.Grant{}, false
		}
		g.Resources = append(g.Resources, resource.String())
	}
	return g, groupsOK && namesOK && r.Versions.Any
}

// IsIn reports whether the rule is for the namespace of q, or for paths.
func (r *Rule) IsIn(q *Query) bool {
	if r.URLs != nil {
		return r.Own == ""
	}
	return r.meetsNamespace(q)
}

// literals returns the texts of a set, if its patterns are such that say allows.
func literals(s *Set, say func(*Pattern) bool) ([]string, bool) {
	if s.Any {
		return []string{"*"}, true
	}
	texts := make([]string, len(s.Patterns))
	for i := range s.Patterns {
		if !say(&s.Patterns[i]) {
			return nil, false
		}
		texts[i] = s.Patterns[i].String()
	}
	return texts, true
}

func exactly(p *Pattern) bool { return !p.Star && p.Template == nil }

func orPrefix(p *Pattern) bool { return p.Template == nil && (!p.Star || p.Suffix == "") }
