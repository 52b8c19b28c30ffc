package closure

import (
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue/internal/number"
	"github.com/usher-dev/usher/internal/rule"
)

// Patch returns the patch that a source defines. It is not ok where the evaluator has to answer.
func (p *Program) Patch(params *Params) (rule.Outcome, bool) {
	return p.run(params, mostWork, (*machine).patches)
}

// Verdict returns the verdict that a source defines. It is not ok where the evaluator has to
// answer.
func (p *Program) Verdict(params *Params) (rule.Outcome, bool) {
	return p.run(params, mostWork, func(_ *machine, result any) (rule.Outcome, bool) { return verdictFrom(result) })
}

// Passes reports whether the verdict is that the object is valid, without warnings, if a fraction of a
// millisecond is enough to find that out.
func (p *Program) Passes(params *Params) bool {
	if !p.brief {
		return false
	}
	_, passes := p.run(params, briefWork, func(_ *machine, result any) (rule.Outcome, bool) {
		fields, _ := result.(*structure)
		if fields == nil {
			return rule.Outcome{}, false
		}
		if _, warns := fields.find("warnings"); warns {
			return rule.Outcome{}, false
		}
		outcome, ok := verdictFrom(result)
		return outcome, ok && outcome.Harmless()
	})
	return passes
}

// run runs the program with a budget of steps.
func (p *Program) run(params *Params, steps int, read func(*machine, any) (rule.Outcome, bool)) (rule.Outcome, bool) {
	m := machines.Get().(*machine)
	m.start(p.plan, params, steps)
	defer m.stop()
	f := &m.top
	for _, i := range p.plan.conditions {
		if _, s := f.get(m, i); s != known {
			return rule.Outcome{}, false
		}
	}
	// An error in any field is an error of the whole.
	for _, i := range p.plan.fields {
		if _, s := f.get(m, i); s == unclear {
			return rule.Outcome{}, false
		}
	}
	v, s := f.get(m, p.output)
	if s != known {
		return rule.Outcome{}, false
	}
	return read(m, v)
}

// patches reads the patches of a result.
func (m *machine) patches(result any) (rule.Outcome, bool) {
	list, ok := result.([]any)
	if !ok {
		return rule.Outcome{}, false
	}
	if len(list) == 0 {
		return rule.Outcome{}, true
	}
	patch := make(usher.Patch, 0, len(list))
	for _, v := range list {
		fields, ok := v.(*structure)
		if !ok {
			return rule.Outcome{}, false
		}
		op, ok := m.patchOp(fields)
		if !ok {
			return rule.Outcome{}, false
		}
		patch = append(patch, op)
	}
	return rule.Outcome{Patch: patch}, true
}

func (m *machine) patchOp(fields *structure) (op usher.PatchOp, ok bool) {
	for i, name := range fields.names {
		v, _ := member(fields.values[i])
		switch name {
		case "op":
			op.Op, ok = v.(string)
		case "path":
			op.Path, ok = v.(string)
		case "from":
			// Operations that have no from may have a field of this name.
			op.From, _ = v.(string)
			ok = true
		case "value":
			op.Value, ok = m.tree(v)
		default:
			ok = !looksLike(name, "op", "path", "value", "from")
		}
		if !ok {
			return op, false
		}
	}
	switch op.Op {
	case "add", "remove", "replace", "test":
		op.From = ""
		return op, true
	case "copy", "move":
		op.Value = nil
		return op, op.From != ""
	}
	return op, false
}

// looksLike reports whether a field may be taken for one of others, as Go's decoders
// do.
func looksLike(name string, others ...string) bool {
	for _, other := range others {
		if strings.EqualFold(name, other) {
			return true
		}
	}
	return false
}

// verdictFrom reads the result of a validation.
func verdictFrom(result any) (rule.Outcome, bool) {
	fields, ok := result.(*structure)
	if !ok {
		return rule.Outcome{}, false
	}
	valid, reason := true, ""
	var warnings []string
	for i, name := range fields.names {
		v, _ := member(fields.values[i])
		switch name {
		case "valid":
			valid, ok = v.(bool)
		case "reason":
			reason, ok = v.(string)
		case "warnings":
			warnings, ok = texts(v)
		default:
			ok = !looksLike(name, "valid", "reason", "warnings")
		}
		if !ok {
			return rule.Outcome{}, false
		}
	}
	if valid {
		return rule.Outcome{Warnings: warnings}, true
	}
	return rule.Outcome{Verdict: usher.Deny, Message: reason, Warnings: warnings}, true
}

// texts reads a list of strings.
func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	var all []string
	for _, element := range list {
		element, s := member(element)
		text, isText := element.(string)
		if !isText || s != known {
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}

// tree returns a value as a JSON tree of its own.
func (m *machine) tree(v any) (any, bool) {
	if !m.spend(1) {
		return nil, false
	}
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, true
	case chosen:
		return m.tree(v.value)
	case fraction:
		n, err := number.Encode(float64(v))
		return n, err == nil
	case float64:
		n, err := number.Encode(v)
		return n, err == nil
	case *structure:
		object := make(map[string]any, len(v.names))
		for i, name := range v.names {
			if isHidden(name) {
				continue
			}
			field, ok := m.tree(v.values[i])
			if !ok {
				return nil, false
			}
			object[name] = field
		}
		return object, true
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			var ok bool
			if list[i], ok = m.tree(element); !ok {
				return nil, false
			}
		}
		return list, true
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, field := range v {
			var ok bool
			if object[name], ok = m.tree(field); !ok {
				return nil, false
			}
		}
		return object, true
	}
	return nil, false
}
