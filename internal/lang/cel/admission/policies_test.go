package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// A validator is a policy as upstream evaluates it.
type validator struct {
	validating.Validator

	source admission.Code
}

// newValidator is compilePolicy of k8s.io/apiserver/pkg/admission/plugin/policy/validating.
func newValidator(t testing.TB, s admission.Code) validator {
	t.Helper()
	compiler := newOracle(t, nil).compiler
	with := plugincel.OptionalVariableDeclarations{HasParams: s.Params, HasAuthorizer: true}
	without := plugincel.OptionalVariableDeclarations{HasParams: s.Params}
	for _, v := range s.Variables {
		compiler.CompileAndStoreVariable(named(v), with, environment.StoredExpressions)
	}
	failurePolicy := admissionv1.Fail
	if s.Ignore {
		failurePolicy = admissionv1.Ignore
	}
	compile := func(o plugincel.OptionalVariableDeclarations, n int, accessor func(i int) plugincel.ExpressionAccessor) plugincel.ConditionEvaluator {
		accessors := make([]plugincel.ExpressionAccessor, n)
		for i := range accessors {
			accessors[i] = accessor(i)
		}
		return compiler.CompileCondition(accessors, o, environment.StoredExpressions)
	}
	var matcher matchconditions.Matcher
	if len(s.Conditions) > 0 {
		matcher = matchconditions.NewMatcher(compile(with, len(s.Conditions), func(i int) plugincel.ExpressionAccessor {
			return &matchconditions.MatchCondition{Name: s.Conditions[i].Name, Expression: s.Conditions[i].Expression}
		}), &failurePolicy, "policy", "validate", "p")
	}
	return validator{source: s, Validator: validating.NewValidator(
		compile(with, len(s.Validations), func(i int) plugincel.ExpressionAccessor {
			v := s.Validations[i]
			condition := &validating.ValidationCondition{Expression: v.Expression, Message: v.Message}
			if v.Reason != "" {
				condition.Reason = new(metav1.StatusReason(v.Reason))
			}
			return condition
		}),
		matcher,
		compile(with, len(s.Annotations), func(i int) plugincel.ExpressionAccessor {
			return &validating.AuditAnnotationCondition{Key: s.Annotations[i].Key, ValueExpression: s.Annotations[i].ValueExpression}
		}),
		compile(without, len(s.Validations), func(i int) plugincel.ExpressionAccessor {
			if s.Validations[i].MessageExpression == "" {
				return nil
			}
			return &validating.MessageExpressionCondition{MessageExpression: s.Validations[i].MessageExpression}
		}),
		&failurePolicy, nil,
	)}
}

func (v *validator) evaluate(s *situation) admission.Evaluation {
	namespace := s.namespace
	decided := v.Validate(context.Background(), s.attributes.GetResource(), s.attributes, s.params, namespace, celconfig.RuntimeCELCostBudget, authorizer.AuthorizerFunc(s.access))
	var r admission.Evaluation
	for i, d := range decided.Decisions {
		if d.Action == validating.ActionDeny {
			r.Denials = append(r.Denials, admission.Denial{Index: i, Message: d.Message, Reason: string(d.Reason), Failed: d.Evaluation == validating.EvalError})
		}
	}
	for _, a := range decided.AuditAnnotations {
		switch a.Action {
		case validating.AuditAnnotationActionPublish:
			r.Annotations = append(r.Annotations, admission.Published{Key: a.Key, Value: a.Value})
		case validating.AuditAnnotationActionError:
			r.Refused = append(r.Refused, a.Error)
		case validating.AuditAnnotationActionExclude:
		}
	}
	return r
}

// evaluate is the result of Usher, which says more than upstream's of policies that are skipped.
func evaluate(t testing.TB, p *admission.Program, s *situation) admission.Evaluation {
	t.Helper()
	known := &fact.Known{}
	for range 1000 {
		in := admission.Input{Request: s.request, Object: s.object, OldObject: s.old, Params: s.paramed, Facts: known}
		r, err := p.Evaluate(t.Context(), &in)
		if missing, ok := errors.AsType[*fact.Missing](err); ok {
			s.resolve(known, missing.Ref)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if skipping, known := p.Glance(t.Context(), &in); known && (skipping != r.Skipping || len(r.Denials)+len(r.Annotations)+len(r.Refused)+len(r.Ignored) > 0) {
			t.Errorf("at a glance it is %+v, and then %+v", skipping, r)
		}
		r.Skipping = admission.Skipping{}
		for i := range r.Denials {
			// Upstream does not tell an error of all validations from one of the first.
			r.Denials[i].Whole = false
		}
		return r
	}
	t.Fatal("a fact is missing however often it is given")
	return admission.Evaluation{}
}

// asUpstream returns what upstream's validator says, too: it does not say what it ignores, nor which part of
// a policy has failed as a whole.
func asUpstream(e admission.Evaluation) admission.Evaluation {
	e.Ignored, e.Denials = nil, slices.Clone(e.Denials)
	for i := range e.Denials {
		e.Denials[i].Place, e.Denials[i].Unmade = "", ""
	}
	return e
}

// TestPolicies compares generated policies with upstream's validator.
func TestPolicies(t *testing.T) {
	t.Parallel()
	all := situations(t, 12)
	g := seeded(newKubernetesGrammar(), 3)
	var denials, failures, annotations, refused int
	for n := range 80 {
		g.forFamily()
		s := generatedSource(g)
		upstream := newValidator(t, s)
		program, _ := admission.Compile(s)
		for _, situation := range all[g.family] {
			got, wanted := asUpstream(evaluate(t, program, situation)), upstream.evaluate(situation)
			for range repeats {
				if cmp.Equal(got, wanted) {
					break
				}
				wanted = upstream.evaluate(situation)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("policy %d, %s: %+v\n-upstream +usher:\n%s", n, situation.name, s, diff)
			}
			for _, d := range got.Denials {
				denials++
				if d.Failed {
					failures++
				}
			}
			annotations += len(got.Annotations)
			refused += len(got.Refused)
		}
	}
	t.Logf("%d denials, %d of them errors, %d annotations, %d of them refused", denials, failures, annotations+refused, refused)
	if denials < 500 || failures < 200 || denials-failures < 200 || annotations < 100 || refused < 50 {
		t.Error("the policies show little")
	}
}

func generatedSource(g *generator) admission.Code {
	s := admission.Code{Params: g.IntN(4) > 0, Ignore: g.IntN(4) == 0, Variables: source.Variables}
	for i := range g.IntN(3) {
		text := g.write(cel.BoolType, 2)
		if g.IntN(3) > 0 {
			// Most hold, so that there is something behind them.
			text = "(" + text + ") || true"
		}
		s.Conditions = append(s.Conditions, admission.Named{Name: fmt.Sprintf("c%d", i), Expression: text})
	}
	for range 1 + g.IntN(4) {
		v := admission.Validation{Expression: g.write(cel.BoolType, 2)}
		if g.IntN(2) == 0 {
			v.MessageExpression = g.write(cel.StringType, 2)
		}
		if g.IntN(2) == 0 {
			v.Message = " not like this\t"
		}
		if g.IntN(3) == 0 {
			v.Reason = "Forbidden"
		}
		s.Validations = append(s.Validations, v)
	}
	for i := range g.IntN(3) {
		s.Annotations = append(s.Annotations, admission.Annotation{Key: fmt.Sprintf("k%d", i), ValueExpression: g.write(cel.StringType, 2)})
	}
	return s
}

// spend is an expression that is true and costs n, up to a million. It takes little time.
func spend(n int) string {
	const unit = 800
	texts := make([]string, 0, 3)
	if q := n / unit; q > 0 {
		texts = append(texts, fmt.Sprintf("'%s'.matches('%s')", strings.Repeat("x", 10*unit-1), strings.Repeat("y", 4*q)))
	}
	if r := n % unit; r > 0 {
		texts = append(texts, fmt.Sprintf("'%s'.matches('yyyy')", strings.Repeat("x", 10*r-1)))
	}
	return strings.Join(append(texts, "true"), " || ")
}

// spends are validations that cost n together.
func spends(n int) []admission.Validation {
	const most = 900_000
	var all []admission.Validation
	for ; n > most; n -= most {
		all = append(all, admission.Validation{Expression: spend(most)})
	}
	return append(all, admission.Validation{Expression: spend(n)})
}

// TestBudgets compares with upstream's validator what is stopped when just not enough is left of the
// budgets of Kubernetes: 1,000,000 an expression, 10,000,000 for all, 2,500,000 for conditions.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := situations(t, 1)["widget"][0]
	for _, n := range []int{1, 799, 800, 801, 123_456, 999_999} {
		if a := s.upstream(newOracle(t, nil).compile(spend(n)), wholeBudget); a.Cost != int64(n) || a.Value != "bool true" {
			t.Fatalf("%d are spent instead of %d: %v", a.Cost, n, a)
		}
	}
	costly := []admission.Named{{Name: "a", Expression: spend(700_000)}, {Name: "b", Expression: "variables.a && " + spend(300_000)}}
	// With d = 0 all is spent, with 1 too much.
	for _, test := range []struct {
		reason string
		source func(d int) admission.Code
		// differs says that the result depends on d.
		differs bool
	}{
		{"one expression", func(d int) admission.Code {
			return admission.Code{Validations: []admission.Validation{{Expression: spend(1_000_000+d) + " && false"}, {Expression: "false"}}}
		}, true},
		{"all validations", func(d int) admission.Code {
			return admission.Code{Validations: append(spends(10_000_000+d), admission.Validation{Expression: "false"})}
		}, true},
		{"all validations, ignored", func(d int) admission.Code {
			return admission.Code{Ignore: true, Validations: append(spends(10_000_000+d), admission.Validation{Expression: "false"})}
		}, true},
		{"an error spends", func(d int) admission.Code {
			return admission.Code{Validations: append(spends(9_999_994+d), admission.Validation{Expression: "object.nothing == 1"}, admission.Validation{Expression: "object.kind == 'x'"})}
		}, true},
		{"an error over the budget is no error", func(d int) admission.Code {
			return admission.Code{Validations: append(spends(9_999_997+d), admission.Validation{Expression: "object.nothing.more == 1"})}
		}, true},
		{"messages get what is left", func(d int) admission.Code {
			return admission.Code{Validations: append(spends(9_500_000+d), admission.Validation{Expression: "false", MessageExpression: "(" + spend(500_000) + ") ? 'm' : 'n'"})}
		}, true},
		{"messages of validations that hold count", func(d int) admission.Code {
			v := spends(9_500_000 + d)
			v[0].MessageExpression = "(" + spend(500_000) + ") ? 'm' : 'n'"
			return admission.Code{Validations: v}
		}, true},
		{"messages over the budget, ignored", func(d int) admission.Code {
			return admission.Code{Ignore: true, Validations: append(spends(9_500_000+d), admission.Validation{Expression: "false", MessageExpression: "(" + spend(500_000) + ") ? 'm' : 'n'"})}
		}, true},
		{"one message over the limit of an expression", func(d int) admission.Code {
			return admission.Code{Validations: []admission.Validation{{Expression: "false", Message: "fixed", MessageExpression: "(" + spend(1_000_000+d) + ") ? 'm' : 'n'"}}}
		}, true},
		{"annotations get a budget of their own", func(d int) admission.Code {
			return admission.Code{Validations: spends(10_000_000 + d), Annotations: []admission.Annotation{{Key: "k", ValueExpression: "(" + spend(900_000) + ") ? 'v' : 'w'"}}}
		}, true},
		{"annotations over their budget", func(d int) admission.Code {
			s := admission.Code{Validations: []admission.Validation{{Expression: "false"}}}
			for i, v := range spends(10_000_000 + d) {
				s.Annotations = append(s.Annotations, admission.Annotation{Key: fmt.Sprint("k", i), ValueExpression: "(" + v.Expression + ") ? 'v' : 'w'"})
			}
			return s
		}, true},
		{"conditions", func(d int) admission.Code {
			s := admission.Code{Validations: []admission.Validation{{Expression: "false"}}}
			for i, v := range spends(2_500_000 + d) {
				s.Conditions = append(s.Conditions, admission.Named{Name: fmt.Sprint("c", i), Expression: v.Expression})
			}
			return s
		}, true},
		{"conditions, ignored", func(d int) admission.Code {
			s := admission.Code{Ignore: true, Validations: []admission.Validation{{Expression: "false"}}}
			for i, v := range spends(2_500_000 + d) {
				s.Conditions = append(s.Conditions, admission.Named{Name: fmt.Sprint("c", i), Expression: v.Expression})
			}
			return s
		}, true},
		{"conditions spend nothing of the budget of validations", func(d int) admission.Code {
			return admission.Code{Conditions: []admission.Named{{Name: "c", Expression: spend(900_000)}}, Validations: append(spends(10_000_000+d), admission.Validation{Expression: "false"})}
		}, true},
		{"a false condition over the budget is not asked", func(d int) admission.Code {
			return admission.Code{Conditions: []admission.Named{{Name: "f", Expression: "false"}, {Name: "a", Expression: spend(900_000)}, {Name: "b", Expression: spend(900_000)}, {Name: "c", Expression: spend(700_000 + d)}}, Validations: []admission.Validation{{Expression: "false"}}}
		}, true},
		{"variables count when they are read, once", func(d int) admission.Code {
			return admission.Code{Variables: costly, Validations: append(spends(8_999_991+d), admission.Validation{Expression: "variables.a"}, admission.Validation{Expression: "variables.b"}, admission.Validation{Expression: "!variables.a"})}
		}, true},
		{"a variable over the limit of an expression", func(d int) admission.Code {
			return admission.Code{Variables: []admission.Named{{Name: "a", Expression: spend(1_000_000 + d)}}, Validations: []admission.Validation{{Expression: "!variables.a"}, {Expression: "variables.a && false"}}}
		}, true},
		{"variables that nobody reads cost nothing", func(d int) admission.Code {
			return admission.Code{Variables: costly, Validations: append(spends(9_999_990+d), admission.Validation{Expression: "false"})}
		}, false},
		{"variables are computed again for messages", func(d int) admission.Code {
			return admission.Code{Variables: costly, Validations: append(spends(8_599_995+d), admission.Validation{Expression: "!variables.a", MessageExpression: "variables.a ? 'm' : 'n'"})}
		}, true},
		{"variables are computed again for annotations", func(d int) admission.Code {
			return admission.Code{Variables: costly, Validations: append(spends(9_299_997+d), admission.Validation{Expression: "!variables.a"}), Annotations: []admission.Annotation{{Key: "k", ValueExpression: "variables.a ? 'v' : 'w'"}}}
		}, true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			results := map[string]bool{}
			for d := range 2 {
				source := test.source(d)
				upstream := newValidator(t, source)
				program, problems := admission.Compile(source)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				wanted := upstream.evaluate(s)
				if diff := cmp.Diff(wanted, asUpstream(evaluate(t, program, s))); diff != "" {
					t.Errorf("%d: -upstream +usher:\n%s", d, diff)
				}
				results[fmt.Sprintf("%+v", brief(wanted))] = true
			}
			if len(results) > 1 != test.differs {
				t.Errorf("the results do not tell where the budget ends: %v", results)
			}
		})
	}
}

// brief leaves out the texts of expressions, which differ in each.
func brief(r admission.Evaluation) admission.Evaluation {
	for i := range r.Denials {
		if _, after, found := strings.Cut(r.Denials[i].Message, "resulted in error"); found {
			r.Denials[i].Message = after
		}
		r.Denials[i].Message = r.Denials[i].Message[:min(200, len(r.Denials[i].Message))]
	}
	return r
}
