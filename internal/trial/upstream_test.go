package trial_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// schemas resolves the kinds of a set for upstream's type checker.
type schemas struct {
	set   *kind.Set
	known map[schema.GroupVersionKind]*spec.Schema
}

func (s schemas) ResolveSchema(of schema.GroupVersionKind) (*spec.Schema, error) {
	if known := s.known[of]; known != nil {
		return known, nil
	}
	like := s.set.Schema(of)
	if like == nil {
		return nil, fmt.Errorf("%v: %w", of, resolver.ErrSchemaNotFound)
	}
	raw, err := json.Marshal(s.inline(like, nil))
	if err != nil {
		return nil, err
	}
	var converted spec.Schema
	s.known[of] = &converted
	return &converted, json.Unmarshal(raw, &converted)
}

// inline replaces references, and recursive ones by anything.
func (s schemas) inline(of *kind.Schema, above []*kind.Schema) *kind.Schema {
	resolved := s.set.Resolve(of)
	if resolved == nil || len(above) > 30 {
		return &kind.Schema{Type: "object", Open: true}
	}
	if slices.Contains(above, resolved) {
		return &kind.Schema{Type: "object", Open: true}
	}
	above = append(above, resolved)
	whole := *resolved
	switch whole.Kind() {
	case kind.Either:
		return &kind.Schema{IntOrString: true}
	case kind.Quantity:
		return &kind.Schema{Type: "string"}
	default:
	}
	whole.Items = nil
	if resolved.Items != nil {
		whole.Items = s.inline(resolved.Items, above)
	}
	if resolved.Values != nil && resolved.Values.Schema != nil {
		whole.Values = &kind.Values{Schema: s.inline(resolved.Values.Schema, above)}
	}
	if len(resolved.Properties) > 0 {
		whole.Properties = map[string]*kind.Schema{}
		for name, field := range resolved.Properties {
			whole.Properties[name] = s.inline(field, above)
		}
	}
	return &whole
}

// upstreamOf returns upstream's type checker for the kinds of a set.
func upstreamOf(set *kind.Set) *validating.TypeChecker {
	mapper := meta.NewDefaultRESTMapper(nil)
	for r := range set.Resources() {
		if !strings.Contains(r.Name, "/") {
			plural := r.Of().GroupVersion().WithResource(r.Name)
			mapper.AddSpecific(r.Of(), plural, plural, meta.RESTScopeNamespace)
		}
	}
	return &validating.TypeChecker{SchemaResolver: schemas{set, map[schema.GroupVersionKind]*spec.Schema{}}, RestMapper: mapper}
}

// TestUpstreamWarnsOfNothingElse: of each slip in validations of which upstream's type checker warns,
// something is said, too.
func TestUpstreamWarnsOfNothingElse(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "slips", "cel.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	checker, try := upstreamOf(gadgetKinds(t)), tried(t)
	both, only := 0, 0
	for i := 0; i < len(archive.Files); i += 2 {
		name := archive.Files[i].Name
		p, err := policy(t, name, archive.Files[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		object, ok := p.Object.(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			t.Fatalf("%s: %T", name, p.Object)
		}
		warned := map[string]string{}
		for _, w := range checker.Check(object) {
			warned[w.FieldRef] = w.Warning
		}
		said := map[string]bool{}
		c := compile.Policy(p)
		for _, problem := range append(c.Problems, try.Try(t.Context(), c).Problems...) {
			said[problem.Field] = true
		}
		for field, warning := range warned {
			// A wrong variable is told where it is written, and what fails when it is tried, of the validation.
			if !said[field] && !said[strings.TrimSuffix(field, ".expression")] && !said["spec.variables[0].expression"] {
				t.Errorf("%s: nothing is said of %s, of which upstream says %s", name, field, warning)
			}
		}
		if len(warned) > 0 {
			both++
		} else {
			only++
		}
	}
	if both < 60 {
		t.Errorf("upstream warns of %d slips: the comparison compares too little", both)
	}
	t.Logf("upstream warns of %d of %d slips", both, both+only)
}

// TestMistakesAreOnes: what is an error fails when it is evaluated, or never is what it is compared
// with, on an object with all fields.
func TestMistakesAreOnes(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "slips", "cel.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	set, try := gadgetKinds(t), tried(t)
	evaluated := 0
	for i := 0; i < len(archive.Files); i += 2 {
		name := archive.Files[i].Name
		p, err := policy(t, name, archive.Files[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		c := compile.Policy(p)
		if len(rule.Errors(c.Problems)) > 0 || !c.Admission.Params().Empty() {
			continue
		}
		mistakes := slices.DeleteFunc(try.Try(t.Context(), c).Problems, func(p rule.Problem) bool {
			return p.Severity != rule.Mistake || !strings.HasPrefix(p.Field, "spec.validations[0].expression")
		})
		if len(mistakes) == 0 {
			continue
		}
		evaluated++
		failed, message := evaluate(t, set, c)
		harmless := []string{"never equal", "never one of them", "always false", "never a value"}
		if !failed && !slices.ContainsFunc(harmless, func(text string) bool { return strings.Contains(mistakes[0].What, text) }) {
			t.Errorf("%s: evaluation gives no error (%s), although %s", name, message, mistakes[0].What)
		}
	}
	if evaluated < 60 {
		t.Errorf("%d slips are evaluated: some are lost", evaluated)
	}
}

// evaluate evaluates a policy for an object of the first kind that it is for, and reports whether an
// expression fails.
func evaluate(t *testing.T, set *kind.Set, c compile.Compiled) (failed bool, message string) {
	t.Helper()
	first := c.Admission.Matches().Rules[0]
	var of *kind.Resource
	for r := range set.Resources() {
		if r.Group == first.Groups[0] && r.Name == first.Resources[0] || r.Kind == "PodExecOptions" && first.Resources[0] == "pods/exec" || r.Kind == "Scale" && first.Resources[0] == r.Name {
			of = r
		}
	}
	if of == nil {
		t.Fatalf("no kind of %v", first)
	}
	object, _ := set.Sample(set.Schema(of.Of()), kind.Sampling{}).(map[string]any)
	object["apiVersion"], object["kind"] = of.Of().ToAPIVersionAndKind()
	r := c.Admission.Unbound()[0]
	r.Match = rule.Match{}
	e := engine.New(index.New([]rule.Rule{r}), nil, engine.Options{FailurePolicy: usher.Fail})
	decision, err := e.Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Update, Kind: of.Of(), Name: "x", Namespace: "x",
		Object: usher.TreeObject(object), OldObject: usher.TreeObject(object),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range decision.Findings {
		for _, check := range finding.Checks {
			if check.Failed {
				return true, check.Message
			}
		}
	}
	return false, decision.Message
}
