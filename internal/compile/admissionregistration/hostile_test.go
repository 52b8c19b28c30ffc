package admissionregistration_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestHostilePoliciesAreBounded decides with policies, params and questions by the thousands, as
// nobody writes them who means well. What grows with their number is counted.
func TestHostilePoliciesAreBounded(t *testing.T) {
	t.Parallel()
	deny := admissionv1.DenyAction
	all := func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
		s.ParamRef = &admissionv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: &deny}
	}
	withParams := func(change func(*admissionv1.ValidatingAdmissionPolicySpec)) *admissionv1.ValidatingAdmissionPolicy {
		p := policyOf("p", change)
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		return p
	}
	validations := func(all ...admissionv1.Validation) func(*admissionv1.ValidatingAdmissionPolicySpec) {
		return func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations = all }
	}
	const bindings = 3000
	for _, row := range []struct {
		reason   string
		policies []api.Object
		params   int
		// The most that there may be of warnings, of bytes of an annotation, and of questions about
		// access; asked is the least.
		warnings, annotation, questions, asked int
		verdict                                usher.Verdict
		message                                string
	}{
		{
			"a tenant makes objects of params, of which each has another warning",
			[]api.Object{bindingOf("p", all, "Warn", "Audit"), withParams(validations(admissionv1.Validation{Expression: "false", MessageExpression: "'at ' + string(params.data.long)"}))},
			5000, 1000, 16 << 10, 0, 0, usher.Allow, "",
		},
		{
			"or another annotation",
			[]api.Object{bindingOf("p", all, "Deny"), withParams(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "long", ValueExpression: "string(params.data.long)"}}
			})},
			5000, 0, 16 << 10, 0, 0, usher.Allow, "",
		},
		{
			"bindings of one policy deny",
			append(bindingsOf("p", bindings, "Deny"), policyOf("p", validations(admissionv1.Validation{Expression: "false", Message: "no"}))),
			0, 0, 16 << 10, 0, 0, usher.Deny, "ValidatingAdmissionPolicy 'p' with binding 'b0' denied request: no",
		},
		{
			"bindings of one policy warn",
			append(bindingsOf("p", bindings, "Warn"), policyOf("p", validations(admissionv1.Validation{Expression: "false", Message: "no"}))),
			0, 1000, 16 << 10, 0, 0, usher.Allow, "",
		},
		{
			"bindings of one policy ask the same",
			append(bindingsOf("p", bindings, "Deny"), policyOf("p", validations(admissionv1.Validation{Expression: "authorizer.group('').resource('pods').check('get').allowed()"}))),
			0, 0, 16 << 10, 1, 1, usher.Allow, "",
		},
		{
			"an expression asks in a loop",
			[]api.Object{bindingOf("p", nil, "Deny"), policyOf("p", validations(admissionv1.Validation{Expression: "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, authorizer.group('').resource('r' + string(x)).check('get').allowed())"}))},
			0, 0, 16 << 10, 3, 2, usher.Deny, "cost limit exceeded",
		},
		{
			"many expressions ask",
			[]api.Object{bindingOf("p", nil, "Deny"), policyOf("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				for i := range 25 {
					s.Validations = append(s.Validations, admissionv1.Validation{Expression: fmt.Sprintf("authorizer.group('').resource('r%d').check('get').allowed()", i)})
				}
			})},
			0, 0, 16 << 10, 16, 16, usher.Deny, "more than 16 facts",
		},
		{
			"a chain of variables",
			[]api.Object{bindingOf("p", nil, "Deny"), policyOf("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.Variables = []admissionv1.Variable{{Name: "v0", Expression: "1"}}
				for i := 1; i < 1000; i++ {
					s.Variables = append(s.Variables, admissionv1.Variable{Name: fmt.Sprintf("v%d", i), Expression: fmt.Sprintf("variables.v%d + 1", i-1)})
				}
				s.Validations = []admissionv1.Validation{{Expression: "variables.v999 == 0", MessageExpression: "string(variables.v999)"}}
			})},
			0, 0, 16 << 10, 0, 0, usher.Deny, "denied request: 1000",
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			d, questions := decideHostile(t, row.policies, row.params)
			longest := 0
			for _, value := range d.Audit {
				longest = max(longest, len(value))
			}
			if len(d.Warnings) > row.warnings || longest > row.annotation || questions > row.questions || questions < row.asked {
				t.Errorf("%d warnings, %d bytes in an annotation, %d questions; at most %d, %d, %d", len(d.Warnings), longest, questions, row.warnings, row.annotation, row.questions)
			}
			if d.Verdict != row.verdict || !strings.Contains(d.Message, row.message) {
				t.Errorf("%s: %.300s; want %s: %s", d.Verdict, d.Message, row.verdict, row.message)
			}
		})
	}
}

func bindingsOf(policy string, n int, actions ...admissionv1.ValidationAction) []api.Object {
	all := make([]api.Object, n)
	for i := range all {
		b := bindingOf(policy, nil, actions...)
		b.Name = fmt.Sprintf("b%d", i)
		all[i] = b
	}
	return all
}

// decideHostile decides the creation of a pod, and counts questions about access.
func decideHostile(t *testing.T, policies []api.Object, params int) (usher.Decision, int) {
	t.Helper()
	objects := []map[string]any{tree(t, shop)}
	for i := range params {
		objects = append(objects, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("c%d", i), "namespace": "shop"},
			"data": map[string]any{"long": strings.Repeat(fmt.Sprintf("%05d", i), 400)},
		})
	}
	var read []api.Policy
	for _, p := range policies {
		read = append(read, api.Policy{Object: p})
	}
	rules, problems := compile.Policies(read)
	for _, p := range problems {
		t.Error(p)
	}
	var questions atomic.Int64
	access := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		questions.Add(1)
		return usher.Decision{Verdict: usher.Allow}, nil
	})
	e := engine.New(index.New(rules), fact.Resolvers{fact.Objects: object.FromTrees(objects), fact.Questions: fact.Access(access)}, engine.Options{RuleTimeout: time.Minute})
	r, err := (&policytest.Request{Operation: usher.Create, Namespace: "shop", Object: tree(t, pod), User: policytest.User{Name: "jane"}}).For(usher.Validate)
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d, int(questions.Load())
}

func TestAPIServersAcceptFewAnnotations(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{20: 0, 21: 1} {
		p := policyOf("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for i := range n {
				s.AuditAnnotations = append(s.AuditAnnotations, admissionv1.AuditAnnotation{Key: fmt.Sprintf("k%d", i), ValueExpression: "'a'"})
			}
		})
		_, problems := compile.Policies([]api.Policy{{Object: p}, {Object: bindingOf("p", nil, "Audit")}})
		if len(problems) != want || want > 0 && !strings.Contains(problems[0].What, "API servers accept 20") {
			t.Errorf("%d annotations: %v", n, problems)
		}
	}
}
