package cel

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/types"
)

// A signature is what the overloads of a function have in common.
type signature struct {
	// overloads are those that the checker tries, and parameters their type parameters.
	overloads, parameters float64
	// fixed is the weight of a result that does not depend on arguments.
	fixed float64
	// generic says that the result has type parameters, with extra types around them; pair that two
	// different ones, and fresh that some are not those of arguments, as that of _?._ is not, of which
	// the checker knows more.
	generic, pair, fresh bool
	extra                float64
	// pattern is the index of the argument that is a regular expression; -1 if there is none.
	pattern int
}

// signature returns that of the function of a call.
func (w *weighing) signature(c celast.CallExpr) signature {
	functions, name, member := w.environment.Functions(), c.FunctionName(), c.IsMemberFunction()
	if member {
		// The target may be the first part of the name of a function.
		if qualifier, ok := containers.ToQualifiedName(c.Target()); ok {
			if function := functions[qualifier+"."+name]; function != nil {
				name, member = qualifier+"."+name, false
			}
		}
	}
	key := signatureKey{functions[name], member}
	if key.function == nil {
		return signature{pattern: -1, fixed: 1}
	}
	if known, ok := w.budget.signatures[key]; ok {
		return known
	}
	s := signature{pattern: patternIn(name, member)}
	for _, overload := range key.function.OverloadDecls() {
		if overload.IsMemberFunction() != member {
			continue
		}
		s.overloads++
		s.parameters += float64(len(overload.TypeParams()))
		s.add(overload.ResultType(), overload.ArgTypes())
	}
	if w.budget.signatures == nil {
		w.budget.signatures = map[signatureKey]signature{}
	}
	w.budget.signatures[key] = s
	return s
}

// add adds an overload.
func (s *signature) add(result *types.Type, args []*types.Type) {
	var parameters []string
	weight := weightOf(result, &parameters)
	if len(parameters) == 0 {
		s.fixed = max(s.fixed, weight)
		return
	}
	s.generic = true
	var known []string
	same := false
	for _, arg := range args {
		weightOf(arg, &known)
		same = same || arg.IsExactType(result)
	}
	for _, parameter := range parameters {
		s.fresh = s.fresh || !slices.Contains(known, parameter)
	}
	if !same {
		s.extra = max(s.extra, weight)
	}
	s.pair = s.pair || len(parameters) > 1
}

// weightOf returns of how many types a type consists, and adds the names of type parameters.
func weightOf(t *types.Type, parameters *[]string) float64 {
	if t.Kind() == types.TypeParamKind {
		if !slices.Contains(*parameters, t.TypeName()) {
			*parameters = append(*parameters, t.TypeName())
		}
		return 0
	}
	weight := 1.0
	for _, of := range t.Parameters() {
		weight += weightOf(of, parameters)
	}
	return weight
}
