package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// metadata returns what a key says that is about labels or annotations, and whether it is: their keys may have
// wildcards, and values that are no text are ignored.
func (w *patterns) metadata(p *syntax.Pattern, key syntax.Key, at string, of shape) (answer, bool, error) {
	inner := key.Value
	if isLabels(inner) && inner.Sort == syntax.Map {
		inner.Keys = slices.DeleteFunc(slices.Clone(inner.Keys), func(k syntax.Key) bool {
			_, text := k.Value.Scalar.(string)
			return k.Value.Sort != syntax.Scalar || !text
		})
	}
	if !isLabels(p) || !strings.ContainsAny(key.Name, "*?") || !of.isMap() {
		return answer{}, false, nil
	}
	if err := literal(inner); err != nil {
		return answer{}, true, err
	}
	name := w.variable("k")
	defer func() { w.taken = w.taken[:len(w.taken)-1] }()
	named := like(name, key.Name)
	fits, err := leafOf(inner.Scalar).fits(at+"["+name+"]", kind.Text)
	if err != nil {
		return answer{}, true, refuse(inner.Field, err.Error(), "write it as a validation")
	}
	exists := func(t term) term {
		if t == yes {
			return compare("size("+at+")", ">", "0")
		}
		return call(fmt.Sprintf("%s.exists(%s, %s)", at, name, t.text))
	}
	switch {
	case key.Anchor == syntax.Negation:
		return answer{not(exists(named)), no}, true, nil
	case inner.Scalar == "*":
		fits = yes
	case leafOf(inner.Scalar).absent() || key.Anchor == syntax.Global:
		return answer{}, true, refuse(inner.Field, "its key has wildcards, and its value may be absent", "write it as a validation")
	case key.Anchor != syntax.Equality || fits != yes:
		w.note(inner.Field, "of several keys that fit "+key.Name+", one with a value that fits is enough; before, one of them was taken at random")
	}
	if key.Anchor == syntax.Equality {
		return answer{some(not(exists(named)), exists(all(named, fits))), no}, true, nil
	}
	return answer{exists(all(named, fits)), no}, true, nil
}

// isLabels reports whether a pattern is that of labels or annotations.
func isLabels(p *syntax.Pattern) bool {
	name := lastKey(p.Field)
	return (name == "labels" || name == "annotations") && lastKey(p.Field[:strings.LastIndex(p.Field, ".")]) == "metadata"
}

// lastKey returns the last key of a field, without an anchor.
func lastKey(field string) string {
	last := field[strings.LastIndex(field, ".")+1:]
	if begin := strings.IndexByte(last, '('); begin >= 0 && strings.HasSuffix(last, ")") {
		last = last[begin+1 : len(last)-1]
	}
	return last
}
