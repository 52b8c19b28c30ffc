package template

import "github.com/usher-dev/usher/internal/rule"

// Uses implements [rule.Traced].
func (p *plan) Uses() []rule.Use {
	var all []rule.Use
	for _, t := range p.texts {
		all = append(all, t.Uses("template.value")...)
	}
	if p.reference != nil {
		all = append(all, p.reference.Uses("template.valueRef")...)
	}
	return all
}
