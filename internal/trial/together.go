package trial

import (
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// Together are problems, each once: what is the same of several kinds is said of all of them in one.
type together struct{ all []ofKinds }

// An ofKinds is a problem of some kinds. Before and after are its text around their names; without kinds,
// before is the text.
type ofKinds struct {
	rule.Problem

	before, after string
	kinds         []string
}

// add adds the problems of a kind. Joined says that those of several kinds may be one.
func (t *together) add(kind string, problems []rule.Problem, joined bool) {
	for _, p := range problems {
		one := ofKinds{Problem: p, before: p.What}
		if before, after, ok := strings.Cut(p.What, kind+" "); ok && joined && (before == "a " || strings.HasPrefix(p.What, "every ")) {
			one.before, one.after, one.kinds = before, " "+after, []string{kind}
		}
		one.What = ""
		i := slices.IndexFunc(t.all, func(o ofKinds) bool {
			return o.Problem == one.Problem && o.before == one.before && o.after == one.after && (o.kinds == nil) == (one.kinds == nil)
		})
		switch {
		case i < 0:
			t.all = append(t.all, one)
		case one.kinds != nil && !slices.Contains(t.all[i].kinds, kind):
			t.all[i].kinds = append(t.all[i].kinds, kind)
		}
	}
}

func (t *together) problems() []rule.Problem {
	var all []rule.Problem
	for _, one := range t.all {
		slices.Sort(one.kinds)
		one.What = one.before
		if len(one.kinds) > 0 {
			one.What += printable.List(one.kinds, "and") + one.after
		}
		all = append(all, one.Problem)
	}
	return all
}
