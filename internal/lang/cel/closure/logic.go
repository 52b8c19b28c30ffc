package closure

import "github.com/google/cel-go/common/types"

// A connective is && or || of all its terms.
type connective struct {
	terms []node
	// decides is the value with which one term decides, whatever the others are.
	decides bool
}

func (c *connective) eval(f *Frame) any {
	var err any
	for _, term := range c.terms {
		v := term.eval(f)
		holds, ok := truth(v)
		switch {
		case ok && holds == c.decides:
			return types.Bool(holds)
		case !ok && err == nil:
			err = noOverload(v)
		}
	}
	if err != nil {
		return err
	}
	return types.Bool(!c.decides)
}

// A not is !.
type not struct{ of node }

func (n *not) eval(f *Frame) any {
	v := n.of.eval(f)
	holds, ok := truth(v)
	if !ok {
		return noOverload(v)
	}
	return types.Bool(!holds)
}

// An either is left.or(right) or left.orValue(right): the right one is evaluated only if it is used.
type either struct {
	left, right node
	// unwrap says that the result is the value of left.
	unwrap bool
}

func (e *either) eval(f *Frame) any {
	if c, ok := e.left.(*chain); ok && e.unwrap {
		return e.valueOf(c, f)
	}
	left := e.left.eval(f)
	optional, ok := left.(*types.Optional)
	switch {
	case !ok:
		return left
	case !optional.HasValue():
		return e.right.eval(f)
	case e.unwrap:
		return optional.GetValue()
	}
	return left
}

// valueOf is the value without making an optional value of it.
func (e *either) valueOf(c *chain, f *Frame) any {
	value, _, optional := c.walk(f)
	if optional {
		return f.known(value)
	}
	switch o, ok := value.(*types.Optional); {
	case !ok:
		return f.known(value)
	case o.HasValue():
		return o.GetValue()
	}
	return e.right.eval(f)
}

// A hasValue is left.hasValue() of a chain.
type hasValue struct {
	of *chain
	// call is the same call for what is no optional value.
	call *call
}

func (h *hasValue) eval(f *Frame) any {
	value, _, optional := h.of.walk(f)
	if optional {
		return types.True
	}
	switch v := value.(type) {
	case *types.Err:
		return v
	case *types.Optional:
		return types.Bool(v.HasValue())
	}
	return h.call.apply(f, value)
}
