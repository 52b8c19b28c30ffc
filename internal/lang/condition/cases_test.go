package condition_test

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// A testCase is what this package can check of a case: one policy with one template.
type testCase struct {
	Phase    string                           `json:"phase"`
	Policies []v1alpha1.ClusterValidatePolicy `json:"policies"`
	HTTP     []endpoint                       `json:"http"`
	policytest.Answers[expectation]

	trees trees
}

// The trees of a case are read apart, with integers as int64.
type trees struct {
	namespace         string
	object, oldObject map[string]any
	objects           []any
	bodies            []any
}

type endpoint struct {
	Path         string            `json:"path"`
	RequireQuery map[string]string `json:"requireQuery"`
}

type expectation struct {
	Allowed bool    `json:"allowed"`
	Code    int     `json:"code"`
	Message *string `json:"messageEquals"`
}

func TestCases(t *testing.T) {
	t.Parallel()
	const dir = "../../policytest/testdata/kinitiras"
	documents, err := policytest.Documents(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range documents {
		name := filepath.Base(d.File)
		if !strings.HasPrefix(name, "m") && !strings.HasPrefix(name, "p") && !strings.HasPrefix(name, "n34") {
			continue
		}
		c := read(t, d)
		if c.Phase != "validate" || len(c.Policies) != 1 {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
	if seen < 50 {
		t.Errorf("%d cases were found in %s", seen, dir)
	}
}

func read(t *testing.T, d policytest.Document) *testCase {
	t.Helper()
	var c testCase
	var whole map[string]any
	if err := errors.Join(d.Case(&c), d.Case(&whole)); err != nil {
		t.Fatalf("%s: %v", d.File, err)
	}
	request, _ := whole["request"].(map[string]any)
	c.trees.namespace, _ = request["namespace"].(string)
	c.trees.object, _ = request["object"].(map[string]any)
	c.trees.oldObject, _ = request["oldObject"].(map[string]any)
	c.trees.objects, _ = whole["objects"].([]any)
	endpoints, _ := whole["http"].([]any)
	for _, e := range endpoints {
		e, _ := e.(map[string]any)
		c.trees.bodies = append(c.trees.bodies, e["body"])
	}
	return &c
}

func (c *testCase) check(t *testing.T) {
	t.Helper()
	want := c.Expected()
	program, problems := condition.Compile(c.Policies[0].Spec.ValidateRules[0].Template)
	if program == nil {
		t.Fatalf("compile: %v", problems)
	}
	in := &rule.Input{Request: &usher.Request{Namespace: c.trees.namespace}, Object: c.trees.object, OldObject: c.trees.oldObject}
	if in.Object == nil {
		in.Object, in.OldObject = in.OldObject, nil
	}
	outcome, err := c.run(t, program, in)
	switch {
	case want.Code == 500:
		if err == nil {
			t.Errorf("outcome %+v, want an error", outcome)
		}
	case err != nil:
		t.Errorf("error %v, want allowed = %v", err, want.Allowed)
	case (outcome.Verdict != usher.Deny) != want.Allowed:
		t.Errorf("outcome %+v, want allowed = %v", outcome, want.Allowed)
	case want.Message != nil && outcome.Message != *want.Message:
		t.Errorf("message %q, want %q", outcome.Message, *want.Message)
	}
}

// run runs the program until it lacks no fact.
func (c *testCase) run(t testing.TB, program rule.Program, in *rule.Input) (rule.Outcome, error) {
	known := &fact.Known{}
	in.Facts = known
	for {
		outcome, err := ruletest.Run(t, program, in)
		var missing *fact.Missing
		if !errors.As(err, &missing) {
			return outcome, err
		}
		value, err := c.resolve(missing.Ref)
		known.Set(missing.Ref, value, err)
	}
}

func (c *testCase) resolve(ref fact.Ref) (any, error) {
	asked, ok := ref.(*fact.Object)
	if !ok {
		return c.answer(ref.(*fact.HTTP))
	}
	for _, object := range c.trees.objects {
		tree, _ := object.(map[string]any)
		o := unstructured.Unstructured{Object: tree}
		if o.GetAPIVersion() != asked.APIVersion || o.GetKind() != asked.Kind {
			continue
		}
		if asked.Name != "" && o.GetName() == asked.Name || asked.Name == "" && asked.Selector.Matches(tree) {
			return tree, nil
		}
	}
	if asked.Name == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("get %s: not found", ref)
}

func (c *testCase) answer(request *fact.HTTP) (any, error) {
	address, err := url.Parse(request.URL)
	if err != nil {
		return nil, err
	}
endpoints:
	for i, e := range c.HTTP {
		for name, value := range e.RequireQuery {
			if address.Query().Get(name) != value {
				continue endpoints
			}
		}
		if e.Path == address.Path {
			return map[string]any{"body": c.trees.bodies[i], "header": map[string]any{}}, nil
		}
	}
	return map[string]any{"body": map[string]any{}}, nil
}
