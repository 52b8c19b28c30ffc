package kyverno

import (
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A differs error says that a rule for pods reads what is elsewhere in workloads.
type differs struct{ error }

// Unwrap returns the refusal.
func (d *differs) Unwrap() error { return d.error }

// A place is where workloads have the template of their pods, and prefix begins the names of rules for them.
type place struct {
	prefix string
	path   []string
}

// written converts a rule for pods that differs for workloads: those are rules of their own, as Kyverno writes them.
func written(c *conversion, r *syntax.Rule, why *differs) []*piece {
	templates := c.templates
	defer func() { c.templates = templates }()
	c.templates = v1alpha1.PodTemplatesOff
	of := c.workloads
	if len(of) == 0 {
		of = controllers
	}
	rules := []*syntax.Rule{r}
	for _, p := range []place{{"autogen-", []string{"spec", "template"}}, {"autogen-cronjob-", []string{"spec", "jobTemplate", "spec", "template"}}} {
		kinds := slices.DeleteFunc(slices.Clone(of), func(kind string) bool { return (kind == "CronJob") != (len(p.path) > 2) })
		if len(kinds) == 0 {
			continue
		}
		raw, ok := p.rule(r, kinds)
		rule, wrong := syntax.DecodeRule(raw, r.Field)
		if !ok || len(wrong) > 0 {
			c.leave(r.Field, why)
			return nil
		}
		rules = append(rules, rule)
	}
	var pieces []*piece
	for _, rule := range rules {
		p, err := c.validate(rule)
		if err != nil {
			c.leave(r.Field, err)
			return nil
		}
		pieces = append(pieces, p)
	}
	return pieces
}

// rule returns the text of a rule for some workloads, if all of its blocks are for pods.
func (p place) rule(r *syntax.Rule, kinds []string) (map[string]any, bool) {
	for _, b := range blocksOf(&r.Match) {
		if !slices.Equal(b.Resources.Kinds, []string{"Pod"}) {
			return nil, false
		}
	}
	raw, _ := p.moved(r.Raw).(map[string]any)
	name := p.prefix + r.Name
	raw["name"] = name[:min(len(name), 63)]
	validate, _ := raw["validate"].(map[string]any)
	if pattern, ok := validate["pattern"]; ok {
		validate["pattern"] = p.around(pattern)
	}
	all, _ := validate["anyPattern"].([]any)
	for i := range all {
		all[i] = p.around(all[i])
	}
	for _, field := range []string{"match", "exclude"} {
		renamed(raw[field], kinds)
	}
	return raw, true
}

// around returns a pattern for a workload of one for its pods.
func (p place) around(pattern any) any {
	for _, name := range slices.Backward(p.path) {
		pattern = map[string]any{name: pattern}
	}
	return pattern
}

// moved returns a copy of a value, in whose texts the object is read where workloads have what pods have.
func (p place) moved(value any) any {
	switch v := value.(type) {
	case string:
		for _, object := range []string{"request.object.", "request.oldObject."} {
			for _, field := range []string{"spec", "metadata"} {
				v = strings.ReplaceAll(v, object+field, object+strings.Join(p.path, ".")+"."+field)
			}
		}
		return v
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = p.moved(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, member := range v {
			all[p.moved(key).(string)] = p.moved(member)
		}
		return all
	}
	return value
}

// renamed replaces Pod by other kinds in blocks.
func renamed(match any, kinds []string) {
	switch m := match.(type) {
	case []any:
		for _, block := range m {
			renamed(block, kinds)
		}
	case map[string]any:
		resources, _ := m["resources"].(map[string]any)
		if of, ok := resources["kinds"].([]any); ok && slices.Contains(of, any("Pod")) {
			all := make([]any, len(kinds))
			for i, kind := range kinds {
				all[i] = kind
			}
			resources["kinds"] = all
		}
		for _, member := range m {
			renamed(member, kinds)
		}
	}
}
