package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/celtest"
	"github.com/usher-dev/usher/internal/rule"
)

// compiling is how long compiling a policy may take. It takes about a second at most; this is for
// machines that do something else.
const compiling = 20 * time.Second

func sourceOf(h *celtest.Hostile) admission.Code {
	s := admission.Code{Validations: []admission.Validation{{Expression: h.Expression}}}
	for i, text := range h.Variables {
		s.Variables = append(s.Variables, admission.Named{Name: fmt.Sprintf("v%d", i), Expression: text})
	}
	return s
}

// TestHostilePrograms compiles programs that took minutes, or all memory.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(celtest.Expressions(), celtest.Policies()) {
		t.Run(h.Reason, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), compiling)
			defer cancel()
			_, problems := admission.CompileWithin(&cel.Budget{Context: ctx}, sourceOf(&h))
			if ctx.Err() != nil {
				t.Fatal("it was not compiled in time")
			}
			if errors := rule.Errors(problems); (len(errors) > 0) != h.Rejected {
				t.Errorf("problems %v, rejected %t", errors, h.Rejected)
			}
			if len(problems) > 200 {
				t.Errorf("%d problems", len(problems))
			}
		})
	}
}

// TestCompilingEnds compiles a policy whose time is over.
func TestCompilingEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, problems := admission.CompileWithin(&cel.Budget{Context: ctx}, admission.Code{
		Variables:   []admission.Named{{Name: "v", Expression: "1"}},
		Validations: []admission.Validation{{Expression: "variables.v == 1"}, {Expression: "true"}},
	})
	if len(problems) != 1 || !problems[0].Pending || !strings.Contains(problems[0].What, "not compiled in time") {
		t.Errorf("problems: %v; one is expected that is pending", problems)
	}
}

// TestReasonablePrograms compiles what policies may say, however generated.
func TestReasonablePrograms(t *testing.T) {
	t.Parallel()
	names := make([]string, 2_000)
	for i := range names {
		names[i] = fmt.Sprintf("'registry.example.com/team-%d'", i)
	}
	variables := make([]string, 300)
	for i := range variables {
		variables[i] = fmt.Sprintf("object.spec.containers.filter(c, c.name != 'x%d').map(c, c.image)", i)
	}
	for _, h := range []celtest.Hostile{
		{Reason: "a list of names", Expression: "object.spec.image in [" + strings.Join(names, ", ") + "]"},
		{Reason: "comparisons with names", Expression: "object.name == " + strings.Join(names[:500], " || object.name == ")},
		{Reason: "variables", Variables: variables, Expression: "variables.v0.size() == variables.v299.size()"},
		{Reason: "optional values", Expression: "object.?spec.?a.optMap(a, object.?spec.?b.optMap(b, object.?spec.?c.optMap(c, a + b + c))).hasValue()"},
		{Reason: "empty lists", Expression: strings.Repeat("(has(object.a) ? object.a : []).all(x, x > 0) && object.?b.orValue([]).all(x, x.c.orValue({}).size() > 0) && ", 20) + "true"},
		{Reason: "a patch", Expression: "[{'op': 'add'}].map(p, p.op).filter(o, o != 'x').exists(o, o.matches('^(add|remove)$'))"},
	} {
		t.Run(h.Reason, func(t *testing.T) {
			t.Parallel()
			var budget cel.Budget
			if _, problems := admission.CompileWithin(&budget, sourceOf(&h)); len(rule.Errors(problems)) > 0 {
				t.Fatal(problems)
			}
			if budget.Spent() > 0.5 {
				t.Errorf("it takes %.2f of what a policy may take", budget.Spent())
			}
		})
	}
}

// TestTenantsCompileLess: what takes a third of what a policy of the cluster may is too much for a tenant's.
func TestTenantsCompileLess(t *testing.T) {
	t.Parallel()
	variables := make([]string, 700)
	for i := range variables {
		variables[i] = fmt.Sprintf("object.spec.containers.filter(c, c.name != 'x%d').map(c, c.image)", i)
	}
	source := sourceOf(&celtest.Hostile{Variables: variables, Expression: "variables.v0.size() == 1"})
	var all cel.Budget
	if _, problems := admission.CompileWithin(&all, source); len(rule.Errors(problems)) > 0 || all.Spent() < 0.2 {
		t.Fatalf("as a policy of the cluster: %v, spent %.2f", problems, all.Spent())
	}
	_, problems := admission.CompileWithin(&cel.Budget{Namespace: "team-a"}, source)
	if errs := rule.Errors(problems); len(errs) == 0 || !strings.Contains(errs[0].What, "expression too large") {
		t.Errorf("as a policy of a namespace: %v", problems)
	}
}

// TestFieldsOfHeavyPolicies: a denial does not name the field if the policy would have to be compiled again for long.
func TestFieldsOfHeavyPolicies(t *testing.T) {
	t.Parallel()
	variables := make([]string, 150)
	for i := range variables {
		variables[i] = fmt.Sprintf("object.spec.containers.filter(c, c.name != 'x%d').map(c, c.image)", i)
	}
	for _, row := range []struct {
		reason, namespace string
		variables         []string
		want              string
	}{
		{"a policy of the cluster", "", variables, "spec.replicas"},
		{"a small one of a namespace", "team-a", variables[:5], "spec.replicas"},
		{"a large one of a namespace", "team-a", variables, ""},
	} {
		program, problems := admission.CompileWithin(&cel.Budget{Namespace: row.namespace}, sourceOf(&celtest.Hostile{Variables: row.variables, Expression: "object.spec.replicas > 1"}))
		if len(rule.Errors(problems)) > 0 {
			t.Fatal(problems)
		}
		if got := program.Field(t.Context(), fieldInput(fieldObject(), nil), 0); got != row.want {
			t.Errorf("%s: field %q, want %q", row.reason, got, row.want)
		}
	}
}

// TestNobodyWaits compiles an expression while another policy is being compiled.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	inner := false
	ctx := during{Context: t.Context(), do: func() {
		if inner {
			return
		}
		inner = true
		if _, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: "true"}}}); problems != nil {
			t.Error(problems)
		}
	}}
	if _, problems := admission.CompileWithin(&cel.Budget{Context: ctx}, admission.Code{Validations: []admission.Validation{{Expression: "true"}}}); problems != nil || !inner {
		t.Errorf("problems: %v, compiled another: %t", problems, inner)
	}
}

// A during is a context that does something when it is asked for its end.
type during struct {
	context.Context //nolint:containedctx // it is one

	do func()
}

// Err implements [context.Context].
func (d during) Err() error {
	d.do()
	return d.Context.Err()
}
