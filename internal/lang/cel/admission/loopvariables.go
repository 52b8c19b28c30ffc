package admission

import (
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// LoopVariables are the variables of a loop, and those around it.
type loopVariables struct {
	cel.Variables

	values map[string]any
}

// ResolveName implements [interpreter.Activation].
func (l *loopVariables) ResolveName(name string) (any, bool) {
	if value, found := l.values[name]; found {
		return value, true
	}
	return l.Variables.ResolveName(name)
}

// Parent implements [interpreter.Activation].
func (l *loopVariables) Parent() interpreter.Activation { return l.Variables }
