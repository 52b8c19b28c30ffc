package template

import "github.com/usher-dev/usher/internal/rule"

// Uses implements [rule.Traced].
func (p *plan) Uses() []rule.Use {
	var all []rule.Use
	for _, t := range p.texts {
		all = append(all, t.Uses("template.value")...)
	}
	if p.reference != nil {
		// The value itself comes first, and then what it is found by.
		uses := p.reference.Uses("template.valueRef")
		uses[0].Told = true
		all = append(all, uses...)
	}
	return all
}
