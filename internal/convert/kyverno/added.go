package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// value writes what is added: a pattern without anchors.
func (w *patcher) value(p *syntax.Pattern) (string, error) {
	switch p.Sort {
	case syntax.Map:
		return w.mapValue(p)
	case syntax.List:
		items := make([]string, 0, len(p.Items))
		for _, item := range p.Items {
			text, err := w.value(item)
			if err != nil {
				return "", err
			}
			items = append(items, text)
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	default:
	}
	if text, ok := p.Scalar.(string); ok {
		text, isBare := strings.CutPrefix(text, bare)
		v, err := w.scope.String(text)
		if isBare && err == nil {
			w.note(p.Field, "a variable without quotes is what it is: a text that YAML reads as a number, or as true, stays a text", "")
		}
		switch {
		case err != nil:
			return "", placed(p.Field, err)
		case v.CanBeNull():
			return "", refuse(p.Field, "its value may be null", "write it as a JSONPatch")
		case !w.texts && v.Type.Kind == expression.Map && expression.HasLabels(v):
			return expression.NotNulls(v), nil
		case !w.texts && v.Type.Kind == expression.Map:
			return "", notLabels(p.Field)
		case w.texts && !isBare && v.Type.Kind != expression.Text:
			if v, err = expression.Written(w.scope, v); err != nil {
				return "", placed(p.Field, err)
			}
		}
		return v.Text, nil
	}
	return expression.Constant(p.Scalar).Text, nil
}

func (w *patcher) mapValue(p *syntax.Pattern) (string, error) {
	var entries []string
	for i := range p.Keys {
		key := &p.Keys[i]
		switch {
		case key.Anchor == syntax.Conditional || key.Anchor == syntax.Global || key.Value.Sort == syntax.Scalar && key.Value.Scalar == nil:
			continue
		case strings.Contains(key.Name, "{{"):
			return "", refuse(key.Value.Field, "a key has a variable", "write it as a JSONPatch")
		}
		if v, ok := nullable(w, key.Value); ok {
			entries = append(entries, "?"+convert.Quote(key.Name)+": "+v.Optional()+".optMap(v, dyn(v))")
			continue
		}
		text, err := w.value(key.Value)
		if err != nil {
			return "", err
		}
		if len(p.Keys) > 1 {
			text = "dyn(" + text + ")"
		}
		entries = append(entries, convert.Quote(key.Name)+": "+text)
	}
	return "{" + strings.Join(entries, ", ") + "}", nil
}

// variable returns the value of what is one variable.
func variableOf(w *patcher, p *syntax.Pattern) (expression.Value, bool) {
	text, ok := p.Scalar.(string)
	if !ok || w.texts || !strings.Contains(text, "{{") {
		return expression.Value{}, false
	}
	v, err := w.scope.String(text)
	return v, err == nil
}

// mayBeMap reports whether a value that is merged into a field may be a map.
func mayBeMap(v expression.Value, field shape) bool {
	return v.Type.Kind == expression.Map || v.Type.Kind == expression.Any && field.isMap()
}

// nullable returns the value of a variable that may be null, which is nothing to add, and removes what is there.
func nullable(w *patcher, p *syntax.Pattern) (expression.Value, bool) {
	v, ok := variableOf(w, p)
	return v, ok && expression.IsNullOrScalar(v)
}

func notLabels(field string) error {
	return refuse(field, "its value may be a map, whose keys may be anchors, and whose values may be variables", "write it as a JSONPatch")
}

// labels merges a map of labels, of which some may be null, into a map that may be there.
func mergedLabels(v expression.Value, at string, present term, to location, field string) (string, error) {
	if !expression.HasLabels(v) {
		return "", notLabels(field)
	}
	path := func(op, value string) string {
		return append(slices.Clip(to), segment{text: "/"}, segment{computed: "jsonpatch.escapeKey(k)"}).operation(op, value)
	}
	each := fmt.Sprintf("%s.transformList(k, v, v != null ? %s : k in %s ? %s : []).flatten()", v.Postfix(), path("add", "v"), at, path("remove", ""))
	made := fmt.Sprintf("(size(%s) == 0 ? [] : %s)", v.Text, to.operation("add", expression.NotNulls(v)))
	return present.text + " ? " + each + " : " + made, nil
}
