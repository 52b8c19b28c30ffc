package object

import (
	"errors"
	"slices"
	"strings"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// Data returns the sources of data whose kinds are known.
func (o *Policy) Data() []admission.Data {
	return slices.DeleteFunc(slices.Clone(o.data.Sources), func(d admission.Data) bool { return d.Kind.Empty() })
}

// Needs calls f with each fact that the policy needs for all requests, and with what says whether
// its value or error is a problem. The problem has no Policy and no File.
func (o *Policy) Needs(f func(ref fact.Ref, absent func(value any, err error) (rule.Problem, bool))) {
	for i := range o.bindings {
		p := o.bindings[i].params
		ref, ok := p.Ref(o.paramKind)
		if !ok {
			continue
		}
		f(o.facts.Within(ref), func(value any, err error) (rule.Problem, bool) {
			problem, absent := p.Absent(o.paramKind, o.ignore, value, err)
			return misplaced(o.ref.Namespace, problem, err), absent
		})
	}
	if o.existing != nil {
		f(o.existing.probe(), o.absentExisting)
	}
	for i := range o.data.Expected {
		e := &o.data.Expected[i]
		f(o.facts.Within(e.Ref), func(_ any, err error) (rule.Problem, bool) {
			problem, absent := e.Absent(o.ignore, err)
			return misplaced(o.ref.Namespace, problem, err), absent
		})
	}
}

// misplaced returns the problem of a policy, which says who could read what is in no namespace if the policy is of one.
func misplaced(own string, p rule.Problem, err error) rule.Problem {
	if scope, ok := errors.AsType[*fact.WrongScope](err); ok && !scope.Namespaced && own != "" {
		p.Field, p.Do = strings.TrimSuffix(p.Field, ".namespace"), rule.AskToRead
	}
	return p
}
