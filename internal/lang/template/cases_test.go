package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// A testCase is what these tests need of a case file.
type testCase struct {
	Name           string           `json:"name"`
	Phase          string           `json:"phase"`
	Policies       []policy         `json:"policies"`
	RenderPolicies *bool            `json:"renderPolicies"`
	Objects        []map[string]any `json:"objects"`
	HTTP           []stub           `json:"http"`
	Request        struct {
		Operation string         `json:"operation"`
		Object    map[string]any `json:"object"`
		OldObject map[string]any `json:"oldObject"`
	} `json:"request"`
	policytest.Answers[expectation]
}

type policy struct {
	Spec struct {
		OverrideRules []v1alpha1.OverrideRule `json:"overrideRules"`
	} `json:"spec"`
}

type stub struct {
	Path           string            `json:"path"`
	Method         string            `json:"method"`
	RequireHeader  map[string]string `json:"requireHeader"`
	RequireQuery   map[string]string `json:"requireQuery"`
	RequireBody    any               `json:"requireBody"`
	Body           any               `json:"body"`
	ResponseHeader map[string]string `json:"responseHeader"`
}

type expectation struct {
	Allowed       *bool          `json:"allowed"`
	Unchanged     bool           `json:"unchanged"`
	PatchedObject map[string]any `json:"patchedObject"`
	Fields        []struct {
		Path     string `json:"path"`
		Value    any    `json:"value"`
		Absent   bool   `json:"absent"`
		NonEmpty bool   `json:"nonEmpty"`
	} `json:"fields"`
}

const cases = "../../policytest/testdata/kinitiras"

func loadCases(t testing.TB) map[string]testCase {
	t.Helper()
	documents, err := policytest.Documents(cases)
	if err != nil {
		t.Fatal(err)
	}
	loaded := map[string]testCase{}
	for _, d := range documents {
		var c testCase
		if err := d.Case(&c); err != nil {
			t.Fatalf("%s: %v", d.File, err)
		}
		loaded[c.Name] = c
	}
	return loaded
}

// template returns the template of a case that is about one template and no more.
func (c *testCase) template() *v1alpha1.OverrideRuleTemplate {
	if c.Phase != "mutate" || len(c.Policies) != 1 || c.RenderPolicies != nil || len(c.Policies[0].Spec.OverrideRules) != 1 {
		return nil
	}
	o := c.Policies[0].Spec.OverrideRules[0].Overriders
	if o.Cue != "" || len(o.Plaintext) > 0 || len(o.Origin) > 0 {
		return nil
	}
	return o.Template
}

// TestCases carries out the template of every case that has one, natively.
func TestCases(t *testing.T) {
	t.Parallel()
	ran := 0
	for name, c := range loadCases(t) {
		tmpl := c.template()
		if tmpl == nil {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, problems := template.Compile(tmpl)
			if len(rule.Errors(problems)) > 0 {
				if *c.Expected().Allowed {
					t.Fatalf("template does not compile: %v", problems)
				}
				return
			}
			if program == nil {
				t.Fatal("template needs an evaluator")
			}
			patch, err := c.decide(t, program)
			c.check(t, patch, err)
		})
	}
	if ran < 80 {
		t.Errorf("only %d cases have a template", ran)
	}
}

// TestRenderedPolicies renders the templates of every case in which a policy is written.
func TestRenderedPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range loadCases(t) {
		kind, _ := c.Request.Object["kind"].(string)
		if !strings.HasSuffix(kind, "OverridePolicy") || len(c.Policies) > 0 || name == "n33-oversell-factor-not-a-number" {
			// Other policies may refuse it too, and a factor that is not a number is not rendered.
			continue
		}
		var p policy
		raw, err := json.Marshal(c.Request.Object)
		if err == nil {
			err = json.Unmarshal(raw, &p)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, r := range p.Spec.OverrideRules {
			if r.Overriders.Template == nil {
				continue
			}
			text, problems := template.Render(r.Overriders.Template)
			if failed := len(rule.Errors(problems)) > 0; failed == *c.Expected().Allowed {
				t.Errorf("%s: rule %d: got problems %v, want allowed %t", name, i, problems, *c.Expected().Allowed)
			} else if !failed && !strings.Contains(text, "patches:") {
				t.Errorf("%s: rule %d: rendered as %q", name, i, text)
			}
		}
	}
}

// decide runs the program as an engine would.
func (c *testCase) decide(t testing.TB, program rule.Program) (usher.Patch, error) {
	in := &rule.Input{Object: c.Request.Object, Facts: &fact.Known{}}
	if c.Request.Operation == "UPDATE" {
		in.OldObject = c.Request.OldObject
	}
	for range 5 {
		outcome, err := ruletest.Run(t, program, in)
		var missing *fact.Missing
		if !errors.As(err, &missing) {
			return outcome.Patch, err
		}
		value, err := c.resolve(missing.Ref)
		in.Facts.Set(missing.Ref, value, err)
	}
	return nil, errors.New("the program asks for ever more facts")
}

func (c *testCase) resolve(ref fact.Ref) (any, error) {
	asked, ok := ref.(*fact.Object)
	if !ok {
		return c.answer(ref.(*fact.HTTP))
	}
	for _, object := range c.Objects {
		subject := rule.TargetOf(&usher.Request{}, object)
		switch {
		case subject.APIVersion != asked.APIVersion || subject.Kind != asked.Kind,
			asked.Namespace != "" && subject.Namespace != asked.Namespace && (subject.Namespace != "" || !asked.AnyScope):
		case asked.Name == subject.Name, asked.Name == "" && asked.Selector.Matches(object):
			return object, nil
		}
	}
	if asked.Name == "" {
		return nil, nil
	}
	return nil, errors.New("not found")
}

func (c *testCase) answer(request *fact.HTTP) (any, error) {
	for _, s := range c.HTTP {
		path, query, _ := strings.Cut(strings.TrimPrefix(request.URL, "http://stub.invalid"), "?")
		fits := path == s.Path && (s.Method == "" || s.Method == request.Method)
		for name, value := range s.RequireHeader {
			fits = fits && request.Header[name] == value
		}
		for name, value := range s.RequireQuery {
			fits = fits && strings.Contains("&"+query+"&", "&"+name+"="+value+"&")
		}
		if s.RequireBody != nil {
			raw, _ := json.Marshal(s.RequireBody)
			fits = fits && jsonpatch.Equal(raw, []byte(request.Body))
		}
		if !fits {
			continue
		}
		body, ok := s.Body.(map[string]any)
		if !ok {
			return nil, errors.New("the body is not a JSON object")
		}
		header := map[string]any{}
		for name, value := range s.ResponseHeader {
			header[name] = []any{value}
		}
		return map[string]any{"body": body, "header": header}, nil
	}
	return map[string]any{"body": map[string]any{}, "header": map[string]any{}}, nil
}

func (c *testCase) check(t *testing.T, patch usher.Patch, err error) {
	t.Helper()
	var patched map[string]any
	if err == nil {
		patched, err = apply(c.Request.Object, patch)
	}
	if err != nil {
		if *c.Expected().Allowed {
			t.Errorf("failed: %v", err)
		}
		return
	}
	if !*c.Expected().Allowed {
		t.Fatalf("got patch %v, want failure", patch)
	}
	want := c.Expected().PatchedObject
	if c.Expected().Unchanged {
		want = c.Request.Object
	}
	if diff := cmp.Diff(want, patched); want != nil && diff != "" {
		t.Errorf("patched object (-want +got):\n%s", diff)
	}
	for _, f := range c.Expected().Fields {
		got, ok := valueAt(patched, f.Path)
		switch {
		case f.Absent && ok:
			t.Errorf("%s is %v, want none", f.Path, got)
		case f.NonEmpty && !ok:
			t.Errorf("%s is missing", f.Path)
		case !f.Absent && !f.NonEmpty && !cmp.Equal(f.Value, got):
			t.Errorf("%s (-want +got):\n%s", f.Path, cmp.Diff(f.Value, got))
		}
	}
}

// apply applies a patch as an API server does.
func apply(object map[string]any, patch usher.Patch) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	operations, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	if len(patch) > 0 {
		decoded, err := jsonpatch.DecodePatch(operations)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", operations, err)
		}
		if raw, err = decoded.Apply(raw); err != nil {
			return nil, fmt.Errorf("apply %s: %w", operations, err)
		}
	}
	var patched map[string]any
	err = utiljson.Unmarshal(raw, &patched)
	return patched, err
}

// valueAt follows a JSON pointer.
func valueAt(v any, pointer string) (any, bool) {
	for _, segment := range strings.Split(pointer, "/")[1:] {
		segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		switch parent := v.(type) {
		case map[string]any:
			child, ok := parent[segment]
			if !ok {
				return nil, false
			}
			v = child
		case []any:
			var index int
			if _, err := fmt.Sscan(segment, &index); err != nil || index >= len(parent) {
				return nil, false
			}
			v = parent[index]
		default:
			return nil, false
		}
	}
	return v, true
}
