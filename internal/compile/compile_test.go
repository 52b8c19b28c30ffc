package compile_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compiles the policies of every archive in testdata and compares the rules
// and problems, one a line, with those in the archive.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("archives: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, archive)
		})
	}
}

func golden(t *testing.T, file string, archive *txtar.Archive) {
	t.Helper()
	var policies []api.Policy
	var kept []txtar.File
	want := map[string]string{}
	for _, f := range archive.Files {
		if !strings.HasSuffix(f.Name, ".yaml") {
			want[f.Name] = string(f.Data)
			continue
		}
		kept = append(kept, f)
		policies = append(policies, decode(t, f.Name, f.Data))
	}
	rules, problems := compile.Policies(policies)
	got := map[string]string{"rules": "", "problems": ""}
	for i := range rules {
		got["rules"] += rules[i].String() + "\n"
	}
	for _, p := range problems {
		got["problems"] += p.String() + "\n"
	}
	if *update {
		archive.Files = append(kept, txtar.File{Name: "rules", Data: []byte(got["rules"])},
			txtar.File{Name: "problems", Data: []byte(got["problems"])})
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got; go test ./internal/compile -update writes it):\n%s", file, diff)
	}
}

// decode reads a policy whose fields are all on line 1 of name.
func decode(t testing.TB, name string, text []byte) api.Policy {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	policy.Locate = func(string, int, int) api.Position { return api.Position{File: name, Line: 1} }
	return policy
}

func TestPolicyPositions(t *testing.T) {
	t.Parallel()
	policy := decode(t, "", []byte(`
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata:
  name: located
spec:
  validateRules:
  - targetOperations: [create]
    cue: "validate: {valid: true}"
`))
	policy.Locate = func(field string, _, _ int) api.Position {
		return api.Position{File: field, Line: len(field)}
	}
	c := compile.Policy(policy)
	if len(c.Problems) == 0 {
		t.Fatal("no problem with an operation that does not exist")
	}
	for _, p := range c.Problems {
		if p.File != p.Field || p.Line != len(p.Field) || p.Policy != c.Ref {
			t.Errorf("problem %+v is not at the position of its field in %s", p, c.Ref)
		}
	}
}

func TestPolicyOfNoKnownKind(t *testing.T) {
	t.Parallel()
	for _, object := range []api.Object{nil, unknown{&v1alpha1.OverridePolicy{}}} {
		c := compile.Policy(api.Policy{Object: object})
		if len(c.Rules) > 0 || len(rule.Errors(c.Problems)) == 0 {
			t.Errorf("policy %T: rules %v, problems %v; want an error only", object, c.Rules, c.Problems)
		}
	}
}

// An unknown is a kind that nobody compiles.
type unknown struct{ *v1alpha1.OverridePolicy }

// TestOrder permutes the policies: the order of the rules must not change.
func TestOrder(t *testing.T) {
	t.Parallel()
	var cs []compile.Compiled
	for _, p := range []struct{ kind, namespace, name string }{
		{"ClusterOverridePolicy", "", "b"},
		{"OverridePolicy", "shop", "b"},
		{"OverridePolicy", "bank", "b"},
		{"OverridePolicy", "shop", "a"},
		{"ClusterOverridePolicy", "", "a"},
	} {
		cs = append(cs, compile.Policy(plaintext(t, p.kind, p.namespace, p.name)))
	}
	want := []string{
		"mutate/0 built-in namespace from request",
		"mutate/1 ClusterOverridePolicy a spec.overrideRules[0]",
		"mutate/1 ClusterOverridePolicy a spec.overrideRules[1]",
		"mutate/1 ClusterOverridePolicy b spec.overrideRules[0]",
		"mutate/1 ClusterOverridePolicy b spec.overrideRules[1]",
		"mutate/2 OverridePolicy shop/a spec.overrideRules[0]",
		"mutate/2 OverridePolicy shop/a spec.overrideRules[1]",
		"mutate/2 OverridePolicy bank/b spec.overrideRules[0]",
		"mutate/2 OverridePolicy bank/b spec.overrideRules[1]",
		"mutate/2 OverridePolicy shop/b spec.overrideRules[0]",
		"mutate/2 OverridePolicy shop/b spec.overrideRules[1]",
	}
	for range cs {
		cs = append(cs[1:], cs[0])
		var got []string
		for _, r := range compile.Order(cs) {
			line, _, _ := strings.Cut(r.String(), " on ")
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

// TestOrderOfValidations: policies of namespaces may take the time of a request, and those of the cluster have been decided then.
func TestOrderOfValidations(t *testing.T) {
	t.Parallel()
	var cs []compile.Compiled
	for _, p := range []string{"{name: a, namespace: shop}", "{name: b}", "{name: c, namespace: bank}", "{name: d}"} {
		kind := "ClusterObjectPolicy"
		if strings.Contains(p, "namespace") {
			kind = "ObjectPolicy"
		}
		cs = append(cs, compile.Policy(decode(t, p, fmt.Appendf(nil, `{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: %s, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
validations: [{expression: "object.metadata.name != 'x'"}]}}`, kind, p))))
	}
	var got []string
	for _, r := range compile.Order(cs) {
		if r.Phase == usher.Validate {
			got = append(got, r.Policy.String())
		}
	}
	want := []string{"ClusterObjectPolicy b", "ClusterObjectPolicy d", "ObjectPolicy shop/a", "ObjectPolicy bank/c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func plaintext(t testing.TB, kind, namespace, name string) api.Policy {
	t.Helper()
	return decode(t, name, fmt.Appendf(nil, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: %s
metadata: {name: %s, namespace: %q}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: cart}}}
  overrideRules:
  - overriders:
      plaintext:
      - {path: /metadata/labels/a, op: add, value: "1"}
  - overriders:
      plaintext:
      - {path: /metadata/labels/b, op: add, value: "1"}
`, kind, name, namespace))
}

const templatePolicy = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: template}
spec:
  overrideRules:
  - overriders:
      template:
        type: annotations
        operation: add
        path: owned-by
        valueRef: {from: current, path: /metadata/labels/team}
`

const cuePolicy = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: cue}
spec:
  overrideRules:
  - overriders:
      cue: |
        object: _ @tag(object)
        patches: [
          if object.metadata.labels == _|_ {op: "add", path: "/metadata/labels", value: {}},
          {op: "add", path: "/metadata/labels/zone", value: "eu"},
        ]
`

func BenchmarkPolicy(b *testing.B) {
	for name, text := range map[string]string{"template": templatePolicy, "cue": cuePolicy} {
		b.Run(name, func(b *testing.B) {
			policy := decode(b, name, []byte(text))
			b.ReportAllocs()
			for b.Loop() {
				if c := compile.Policy(policy); len(c.Problems) > 0 {
					b.Fatal(c.Problems)
				}
			}
		})
	}
}

func BenchmarkPolicies(b *testing.B) {
	policies := make([]api.Policy, 1000)
	for i := range policies {
		policies[i] = plaintext(b, "ClusterOverridePolicy", "", fmt.Sprintf("p%03d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if rules, _ := compile.Policies(policies); len(rules) != 2001 {
			b.Fatalf("%d rules", len(rules))
		}
	}
}
