package template

import "github.com/usher-dev/usher/internal/lang/reference"

// An edit is one operation, made if all its guards hold and its value exists.
type edit struct {
	when []guard
	op   string
	at   spot
	// value is nil for remove.
	value value
}

// A guard is a condition on the object.
type guard interface {
	holds(*run) bool
	// cue is the condition as a CUE expression that is never an error.
	cue() string
}

// A value is computed from the object.
type value interface {
	// of returns the value. It is not ok if there is none: then there is no operation.
	of(*run) (v any, ok bool, err error)
	// exists is the CUE expression that reports whether there is a value, "" if there always is.
	exists() string
	cue() string
}

func (e *edit) run(r *run) error {
	for _, g := range e.when {
		if !g.holds(r) {
			return nil
		}
	}
	var v any
	if e.value != nil {
		var ok bool
		var err error
		if v, ok, err = e.value.of(r); err != nil || !ok {
			return err
		}
	}
	path, err := e.at.pointer(r)
	if err != nil {
		return err
	}
	r.emit(e.op, path, v)
	return nil
}

func (e *edit) cue() string {
	var conditions []string
	for _, g := range e.when {
		conditions = append(conditions, g.cue())
	}
	body := []field{{"op", reference.Quote(e.op)}, {"path", e.at.pointerExpr()}}
	if e.value != nil {
		if c := e.value.exists(); c != "" {
			conditions = append(conditions, c)
		}
		body = append(body, field{"value", e.value.cue()})
	}
	return comprehension("", conditions, body)
}

// ensure returns the edit that creates an empty map where there is none.
func ensure(at spot) *edit {
	return &edit{when: []guard{isNot(at, aMap)}, op: "add", at: at, value: constant{map[string]any{}}}
}

// A condition requires that a place does, or does not, have a value of a form.
type condition struct {
	at   spot
	form form
	not  bool
}

// A form is a form of values.
type form struct {
	fits func(any) bool
	// cue is a CUE value that unifies with what fits, "" for every value.
	cue string
}

var (
	anything = form{fits: func(any) bool { return true }}
	aMap     = form{cue: "{...}", fits: func(v any) bool {
		_, ok := v.(map[string]any)
		return ok
	}}
	aFilledList = form{cue: "[_, ...]", fits: func(v any) bool {
		list, _ := v.([]any)
		return len(list) > 0
	}}
)

func is(at spot, f form) guard    { return &condition{at: at, form: f} }
func isNot(at spot, f form) guard { return &condition{at: at, form: f, not: true} }

func (c *condition) holds(r *run) bool {
	v, ok := c.at.find(r)
	return (ok && c.form.fits(v)) != c.not
}

func (c *condition) cue() string {
	expr, op := c.at.cue(), "!="
	if c.form.cue != "" {
		expr = "(" + expr + " & " + c.form.cue + ")"
	}
	if c.not {
		op = "=="
	}
	return expr + " " + op + " _|_"
}

// A constant is a JSON value.
type constant struct{ tree any }

func (c constant) of(*run) (any, bool, error) { return c.tree, true, nil }
func (c constant) exists() string             { return "" }
func (c constant) cue() string                { return literal(c.tree) }

// A text is a constant with interpolations.
type text struct{ *reference.Text }

func (t text) of(r *run) (any, bool, error) {
	v, err := t.Value(r.in)
	return v, true, err
}
func (t text) exists() string { return "" }
func (t text) cue() string    { return t.Expr() }

// A referred value is somewhere else.
type referred struct{ *reference.Reference }

func (f referred) of(r *run) (any, bool, error) { return f.Value(r.in) }
func (f referred) exists() string               { return f.Expr() + " != _|_" }
func (f referred) cue() string                  { return f.Expr() }
