package template

import (
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// metadata plans changes of the annotations or labels of the object itself. A missing map is
// created first, for every operation.
func (p *plan) metadata(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	all := inObject("metadata", string(t.Type))
	p.object.Add("metadata", string(t.Type))
	p.steps = append(p.steps, ensure(all))
	if t.Operation == v1alpha1.OperatorRemove {
		key, problems := p.key(t.Path)
		if len(problems) > 0 {
			return problems
		}
		at := all.text(key)
		p.details = append(p.details, key.Expr())
		p.steps = append(p.steps, &edit{when: []guard{is(at, anything)}, op: "remove", at: at})
		return nil
	}
	constant, ok := reference.Constant(t.Value)
	if ok {
		problems := p.setConstant(t, all, constant)
		return append(problems, p.unusedReference(t)...)
	}
	if t.ValueRef == nil {
		return []rule.Problem{odd("value", "neither value nor valueRef is set: the template does nothing but make the map", "set one of them")}
	}
	key, problems := p.key(t.Path)
	problems = append(problems, p.refer(t.ValueRef)...)
	if len(rule.Errors(problems)) > 0 {
		return problems
	}
	p.details = append(p.details, key.Expr()+" from "+p.reference.String())
	p.steps = append(p.steps, &edit{op: "add", at: all.text(key), value: referred{p.reference}})
	return problems
}

func (p *plan) setConstant(t *v1alpha1.OverrideRuleTemplate, all spot, constant any) []rule.Problem {
	pairs, isMap := constant.(map[string]string)
	if isMap {
		for _, raw := range slices.Sorted(maps.Keys(pairs)) {
			p.set(all, p.keyText(raw), reference.ParseText(pairs[raw]))
		}
		return nil
	}
	key, problems := p.key(t.Path)
	if len(problems) > 0 {
		return problems
	}
	value, _ := reference.ConstantText(t.Value)
	p.set(all, key, value)
	return nil
}

func (p *plan) set(all spot, key *reference.Text, value reference.Text) {
	p.useText(&value)
	p.details = append(p.details, key.Expr()+"="+value.Expr())
	p.steps = append(p.steps, &edit{op: "add", at: all.text(key), value: text{&value}})
}

// key returns the annotation or label that a template's path names: all of it is one key.
func (p *plan) key(path string) (*reference.Text, []rule.Problem) {
	trimmed := strings.Trim(path, "/")
	if trimmed == "" {
		return nil, []rule.Problem{wrong("path", "the path is empty", "set it to the key of the annotation or label")}
	}
	return p.keyText(trimmed), nil
}

// keyText returns a key, in which ~1 means a slash and ~0 a tilde.
func (p *plan) keyText(raw string) *reference.Text {
	key := reference.ParseText(strings.ReplaceAll(strings.ReplaceAll(raw, "~1", "/"), "~0", "~"))
	if p.useText(&key) {
		// A computed key is escaped by the program.
		p.imports = append(p.imports, "strings")
	}
	return &key
}

// useText records a text that has interpolations, and reports whether it has.
func (p *plan) useText(t *reference.Text) bool {
	if _, ok := t.Literal(); ok {
		return false
	}
	p.texts = append(p.texts, t)
	return true
}

// refer makes ref the reference of the plan.
func (p *plan) refer(ref *v1alpha1.ResourceRefer) []rule.Problem {
	compiled, problems := reference.Compile(ref, reference.ValueSuffix)
	for i := range problems {
		field := "template.valueRef"
		if problems[i].Field != "" {
			field += "." + problems[i].Field
		}
		problems[i].Field = field
	}
	p.reference = compiled
	return problems
}

// unusedReference handles a valueRef next to a value, which wins: the reference is not fetched,
// unless the value is CUE, which may use it.
func (p *plan) unusedReference(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	switch {
	case t.ValueRef == nil:
		return nil
	case p.open():
		return p.refer(t.ValueRef)
	}
	return []rule.Problem{odd("valueRef", "valueRef does not count: value is set", "remove one of them")}
}
