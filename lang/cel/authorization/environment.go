package authorization

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// newEnvironment is that of Kubernetes 1.36 for stored expressions, put together again: its
// own one counts the cost of every expression, which takes longer than most of ours.
func newEnvironment() (*cel.Env, error) {
	base, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	provider := &provider{Registry: base}
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),

		library.URLs(), library.Regex(), library.Lists(), library.Quantity(),
		library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(), ext.Lists(ext.ListsVersion(3)),

		cel.CustomTypeProvider(provider),
		cel.CustomTypeAdapter(provider),
		cel.Variable("request", requestType),
		selects("selects", func(r *request, key, value string) bool { return r.selectsLabel(key, value) }),
		selects("selectsField", func(r *request, key, value string) bool { return r.selectsField(key, value) }),
	)
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	return env, nil
}

// selects declares request.NAME(key, value).
func selects(name string, ask func(r *request, key, value string) bool) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("request_"+name+"_string_string",
		[]*cel.Type{requestType, cel.StringType, cel.StringType}, cel.BoolType,
		cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			r, ok := args[0].(*request)
			key, isKey := args[1].(types.String)
			value, isValue := args[2].(types.String)
			if !ok || !isKey || !isValue {
				return types.NoSuchOverloadErr()
			}
			return types.Bool(ask(r, string(key), string(value)))
		})))
}

// limited makes a program stop at the budget, as API servers count it.
func limited() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CostLimit(budget),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
	}
}

// cheapCalls take no longer than to read their arguments once.
var cheapCalls = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.In, operators.Index, operators.Add, operators.OptIndex, operators.OptSelect,
	"startsWith", "endsWith", "contains", "size", "selects", "selectsField", "orValue", "hasValue", "value",
}

// cheap reports whether an expression takes no longer than to read the request a few times:
// to count its cost would take longer than to evaluate it. One loop is cheap, unless it
// builds something; loops in loops are not.
func cheap(a *cel.Ast) bool {
	return cheapExpr(celast.NavigateAST(a.NativeRep()), false)
}

func cheapExpr(e celast.NavigableExpr, looped bool) bool {
	switch e.Kind() {
	case celast.ComprehensionKind:
		if looped {
			return false
		}
		looped = true
	case celast.CallKind:
		name := e.AsCall().FunctionName()
		if !slices.Contains(cheapCalls, name) || looped && name == operators.Add {
			return false
		}
	}
	return !slices.ContainsFunc(e.Children(), func(child celast.NavigableExpr) bool { return !cheapExpr(child, looped) })
}
