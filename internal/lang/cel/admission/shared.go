package admission

import (
	"github.com/usher-dev/usher/internal/rule"
)

// An identity is by what other policies know the value of an expression that they may have, too, such as the
// containers of a pod: see [rule.Shared]. The zero identity is that of an expression that depends on more
// than objects and params, or on variables that do.
type identity struct {
	digest rule.Digest
	// byParams says that the value depends on params.
	byParams bool
}

// identify identifies the value of an expression that sees the first of the variables.
//
// A value that has quantities is not shared: to calculate with one changes how others read it.
func (p *Program) identify(e *expression, s *share, first int) {
	names := &s.names
	if e.program == nil || s.whole || s.mutable || !names.Only(objectName, oldObjectName, paramsName, variablesName) {
		return
	}
	texts, byParams := []string{e.text}, names.Mentions(paramsName)
	for _, name := range s.uses {
		i := p.variable(name, first)
		if i < 0 {
			// It is the escaped form of another name.
			continue
		}
		v := &p.variables[i].identity
		if v.digest == (rule.Digest{}) {
			return
		}
		digest := v.digest.Value()
		texts, byParams = append(texts, name, string(digest[:])), byParams || v.byParams
	}
	e.identity = identity{rule.DigestOf(texts...), byParams}
}

// SharedValues returns the values of conditions and variables that other policies may have in common
// with this one, for params with the digests.
func (p *Program) SharedValues(params []rule.Digest) []rule.Shared {
	var all []rule.Shared
	add := func(e *expression) {
		switch {
		case e.identity.digest == rule.Digest{}:
		case !e.identity.byParams:
			all = append(all, rule.Shared{Expression: e.identity.digest})
		default:
			for _, digest := range params {
				if digest != (rule.Digest{}) {
					all = append(all, rule.Shared{Expression: e.identity.digest, Params: digest})
				}
			}
		}
	}
	for i := range p.conditions {
		add(&p.conditions[i])
	}
	for i := range p.variables {
		add(&p.variables[i].expression)
	}
	return all
}

// place returns where the value of an expression is kept, nil if no other policy needs it.
func (a *activation) place(e *expression) *any {
	if e.identity.digest == (rule.Digest{}) {
		return nil
	}
	value := rule.Shared{Expression: e.identity.digest}
	if e.identity.byParams {
		if value.Params = a.in.ParamsDigest; value.Params == (rule.Digest{}) {
			return nil
		}
	}
	return a.in.Memo.Place(value)
}
