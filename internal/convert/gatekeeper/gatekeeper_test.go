package gatekeeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/gatekeeper"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/library"
)

// read returns the objects in a file of testdata, or in a text.
func read(t *testing.T, file string) []map[string]any {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(content))
}

func parse(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

func foreign(objects []map[string]any) []convert.Foreign {
	var all []convert.Foreign
	for _, o := range objects {
		all = append(all, convert.Foreign{Object: o, File: "f.yaml"})
	}
	return all
}

func options(enforce bool) gatekeeper.Options {
	return gatekeeper.Options{Kinds: kind.Recorded(), Enforce: enforce}
}

// Each suite of testdata has tests as Gatekeeper answers them, with one construct of constraints and templates a
// suite: all hold on what the templates become.
func TestSuites(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*/suite.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			for _, s := range read(t, file) {
				rows := gatekeeper.Prove(t.Context(), &convert.Foreign{Object: s, File: file}, reader(t), options(false))
				if len(rows) == 0 {
					t.Error("no tests")
				}
				for _, r := range rows {
					if r.Outcome != proof.Holds {
						t.Errorf("%s %s: %s", r.Name, r.Outcome, r.Why)
					}
				}
			}
		})
	}
}

func reader(t *testing.T) proof.Read {
	return func(file string) ([]map[string]any, []*admissionv1.AdmissionRequest, error) {
		if _, err := os.Stat(file); err != nil {
			return nil, nil, err
		}
		var objects []map[string]any
		var reviews []*admissionv1.AdmissionRequest
		for _, o := range read(t, file) {
			if o["kind"] != "AdmissionReview" {
				objects = append(objects, o)
				continue
			}
			raw, err := yaml.Marshal(o)
			if err != nil {
				return nil, nil, err
			}
			var review admissionv1.AdmissionReview
			if err := yaml.Unmarshal(raw, &review); err != nil {
				return nil, nil, err
			}
			reviews = append(reviews, review.Request)
		}
		return objects, reviews, nil
	}
}

const template = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: named, annotations: {description: Names begin with x.}}
spec:
  crd: {spec: {names: {kind: Named}, validation: {openAPIV3Schema: {type: object, properties: {begin: {type: string, default: x}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations: [{expression: "variables.anyObject.metadata.name.startsWith(variables.params.begin)", message: not named well}]
`

// A message that a test expects is compared, also if another assertion of the test has none.
func TestMessagesAreCompared(t *testing.T) {
	t.Parallel()
	constraint := "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: c}, spec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}, parameters: {begin: x}}}"
	files := map[string]string{"template.yaml": template, "constraint.yaml": constraint, "pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}"}
	for _, row := range []struct {
		assertions string
		want       proof.Outcome
	}{
		{"[{violations: 1, message: not named well}]", proof.Holds},
		{"[{violations: 1, message: not named well}, {violations: yes}]", proof.Holds},
		{"[{violations: 1, message: something else}]", proof.Differs},
		{"[{violations: 1, message: something else}, {violations: yes}]", proof.Differs},
		{"[{violations: 1, message: 'not .* well'}]", proof.Unjudged},
	} {
		suite := parse(t, "{kind: Suite, tests: [{name: a, template: template.yaml, constraint: constraint.yaml, cases: [{name: b, object: pod.yaml, assertions: "+row.assertions+"}]}]}")[0]
		rows := gatekeeper.Prove(t.Context(), &convert.Foreign{Object: suite, File: "suite.yaml"}, func(file string) ([]map[string]any, []*admissionv1.AdmissionRequest, error) {
			return parse(t, files[file]), nil, nil
		}, options(false))
		if len(rows) != 1 {
			t.Fatal(rows)
		}
		if rows[0].Outcome != row.want {
			t.Errorf("%s: %s: %s, want %s", row.assertions, rows[0].Outcome, rows[0].Why, row.want)
		}
	}
}

// What cannot be converted is left out by name, with the field and what to do; nothing by half.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	constraint := func(spec string) string {
		return template + "\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: c}, spec: " + spec + "}"
	}
	for _, tt := range []struct{ reason, objects, want string }{
		{"no constraint", template, "ConstraintTemplate named: no constraint of it is among the files: without one it is not in force; name the files with its constraints, too"},
		{"no template", "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: c}, spec: {}}", "Named c: its ConstraintTemplate is not among the files; name the file with it, too"},
		{"Rego alone", `{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: k8simagedigests}, spec: {crd: {spec: {names: {kind: X}}}, targets: [{target: a, rego: "package x"}]}}`,
			"ConstraintTemplate k8simagedigests: spec.targets: it is in Rego alone; see whether 'usher library show image-digests' is what it means"},
		{"no target", `{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: x}, spec: {crd: {spec: {names: {kind: X}}}}}`, "ConstraintTemplate x: spec.targets: there are 0 targets; write one"},
		{"an unknown field of a constraint", constraint("{match: {kinds: [], namespace: [a]}}"), `Named c: spec: read: json: unknown field "namespace"; correct the constraint`},
		{"an unknown field of a template", strings.Replace(constraint("{}"), "validations:", "matchConditions: []\n        validations:", 1),
			`ConstraintTemplate named: spec.targets[0].code[0].source: read: json: unknown field "matchConditions"; correct the template`},
		{"an unknown action", constraint("{enforcementAction: block}"), `Named c: spec.enforcementAction: there is no action "block"; write deny, warn or dryrun`},
		{"an unknown kind", constraint("{match: {kinds: [{apiGroups: [example.com], kinds: [Gateway]}]}}"), "Named c: spec.match.kinds[0]: no kind Gateway of the API groups example.com is known; name the file with its CustomResourceDefinition, too"},
		{"generated objects", constraint("{match: {source: Generated}}"), "Named c: spec.match.source: it is for pods alone that an ExpansionTemplate makes of workloads; write podTemplates in a ClusterObjectPolicy for pods"},
		{"the whole constraint", strings.Replace(constraint("{}"), "variables.params.begin", "params.spec.parameters.begin", 1),
			"ConstraintTemplate named: spec.targets[0].code[0].source.validations[0].expression: it reads params, the whole constraint: read variables.params; change the template"},
		{"an expression that does not compile", strings.Replace(constraint("{}"), "variables.params.begin", "1", 1), "ConstraintTemplate named: spec.validations[0].expression: found no matching overload for 'startsWith' applied to 'dyn.(int)'"},
		{"params that are null", strings.Replace(constraint("{}"), "variables.params.begin", "variables.params == null ? 'x' : variables.params.begin", 1),
			"Named c: spec.parameters: there are none, and the template compares variables.params with null; write parameters: {}"},
		{"a name that is a path", strings.ReplaceAll(constraint("{}"), "name: named", "name: ../../named"), "ConstraintTemplate ../../named: metadata.name: a lowercase RFC 1123 subdomain"},
		{"a mutation", "{apiVersion: mutations.gatekeeper.sh/v1, kind: AssignOther, metadata: {name: a}}", "AssignOther a: objects of the kind AssignOther are not imported; leave it out"},
	} {
		var reasons []string
		for _, i := range gatekeeper.Policies(t.Context(), foreign(parse(t, tt.objects)), options(false)) {
			if len(i.Left) > 0 && len(i.To) > 0 {
				t.Errorf("%s: left out and converted", tt.reason)
			}
			for _, p := range i.Left {
				reasons = append(reasons, strings.TrimPrefix(p.String(), "f.yaml: error: "))
			}
		}
		if len(reasons) != 1 || !strings.HasPrefix(reasons[0], tt.want) {
			t.Errorf("%s: %q, want %q", tt.reason, reasons, tt.want)
		}
	}
}

// Of constraints and templates that have one name and other contents, each is left out with the place of another one, and
// the rest is imported. Copies are one.
func TestNamesTwice(t *testing.T) {
	t.Parallel()
	const named, other = "\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: %s}, spec: %s}", "another %s has the same name and other contents: f.yaml"
	c := fmt.Sprintf(named, "c", "{}")
	for _, tt := range []struct {
		reason, objects string
		left            []string
		bindings        string
	}{
		{"copies", template + c + c + "\n---\n" + template, nil, "[c]"},
		{"constraints", template + c + fmt.Sprintf(named, "d", "{}") + fmt.Sprintf(named, "c", "{enforcementAction: warn}"), []string{"Named", "Named"}, "[d]"},
		{"all constraints", strings.NewReplacer("name: named", "name: other", "kind: Named", "kind: Other").Replace(template+c) + "\n---\n" + template + c + fmt.Sprintf(named, "c", "{enforcementAction: warn}"), []string{"Named", "Named", "ConstraintTemplate"}, "[c]"},
		{"templates", strings.Replace(template, "Names begin", "Names start", 1) + "\n---\n" + template + strings.NewReplacer("name: named", "name: other", "kind: Named", "kind: Other").Replace("\n---\n"+template+c), []string{"ConstraintTemplate", "ConstraintTemplate"}, "[c]"},
	} {
		var left []string
		bindings := "none"
		for _, i := range gatekeeper.Policies(t.Context(), foreign(parse(t, tt.objects)), options(false)) {
			for _, p := range i.Left {
				if left = append(left, p.Policy.Kind); p.What != fmt.Sprintf(other, p.Policy.Kind) && p.What != "its constraints are left out" {
					t.Errorf("%s: %s", tt.reason, p.What)
				}
			}
			if len(i.To) > 0 {
				bindings = fmt.Sprint(bindingsOf(t, i.To))
			}
		}
		if !slices.Equal(left, tt.left) || bindings != tt.bindings {
			t.Errorf("%s: left %v, want %v; bindings %s, want %s", tt.reason, left, tt.left, bindings, tt.bindings)
		}
	}
}

// With Partial, constraints that cannot be converted are missing; without any the template is left out.
func TestPartial(t *testing.T) {
	t.Parallel()
	const good, bad = "\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: good}, spec: {}}", "\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: bad}, spec: {enforcementAction: block}}"
	o := options(false)
	o.Partial = true
	i := gatekeeper.Policies(t.Context(), foreign(parse(t, template+bad+good)), o)[0]
	if got := fmt.Sprint(bindingsOf(t, i.To)); got != "[good]" || len(i.Left) > 0 || len(i.Missing) != 1 || fmt.Sprint(i.Without) != "[Named bad]" {
		t.Errorf("bindings %s, left %v, missing %v", got, i.Left, i.Missing)
	}
	documents, err := convert.Documents(i.To)
	if err != nil {
		t.Fatal(err)
	}
	if description, _ := documents[0]["spec"].(map[string]any)["description"].(string); description != "Names begin with x.\n\nOf ConstraintTemplate named is missing:\n* Named bad: spec.enforcementAction: there is no action \"block\"" {
		t.Errorf("description %q", description)
	}
	if i := gatekeeper.Policies(t.Context(), foreign(parse(t, template+bad)), o)[0]; len(i.To) > 0 || len(i.Left) != 1 || len(i.Missing) > 0 {
		t.Errorf("%v, left %v, missing %v", i.To, i.Left, i.Missing)
	}
}

// Nothing denies unless that is asked for, and the report says what makes it deny.
func TestActions(t *testing.T) {
	t.Parallel()
	const scoped = "{enforcementAction: scoped, scopedEnforcementActions: [{action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}, {action: deny, enforcementPoints: [{name: '%s'}]}]}"
	for _, tt := range []struct {
		spec, cautious, enforced string
	}{
		{"{}", "[Warn]", "[Deny]"},
		{"{enforcementAction: deny}", "[Warn]", "[Deny]"},
		{"{enforcementAction: warn}", "[Warn]", "[Warn]"},
		{"{enforcementAction: dryrun}", "[Audit]", "[Audit]"},
		{fmt.Sprintf(scoped, "*"), "[Warn]", "[Deny]"},
		{fmt.Sprintf(scoped, "audit.gatekeeper.sh"), "[Warn]", "[Warn]"},
		{"{enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}]}]}", "[Audit]", "[Audit]"},
	} {
		objects := parse(t, template+"\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: c}, spec: "+tt.spec+"}")
		for _, enforce := range []bool{false, true} {
			want := tt.cautious
			if enforce {
				want = tt.enforced
			}
			i := gatekeeper.Policies(t.Context(), foreign(objects), options(enforce))[0]
			if len(i.Left) > 0 {
				t.Fatal(i.Left)
			}
			documents, err := convert.Documents(i.To)
			if err != nil {
				t.Fatal(err)
			}
			binding := documents[0]["spec"].(map[string]any)["bindings"].([]any)[0].(map[string]any)
			if got := fmt.Sprint(binding["validationActions"]); got != want {
				t.Errorf("%s, enforce %t: %s, want %s", tt.spec, enforce, got, want)
			}
			softened := slices.ContainsFunc(i.Notes, func(p rule.Problem) bool { return strings.Contains(p.What, "warns where the constraint denies") })
			if softened != (tt.enforced == "[Deny]" && !enforce) {
				t.Errorf("%s, enforce %t: notes %v", tt.spec, enforce, i.Notes)
			}
		}
	}
}

// Constraints whose names differ by a dot are different bindings.
func TestNamesOfBindings(t *testing.T) {
	t.Parallel()
	const named = "\n---\n{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: %s}, spec: {}}"
	i := gatekeeper.Policies(t.Context(), foreign(parse(t, template+fmt.Sprintf(named, "a.b")+fmt.Sprintf(named, "a-b"))), options(false))[0]
	if got := fmt.Sprint(bindingsOf(t, i.To)); got != "[a-b a-b-2]" || len(i.Left) > 0 {
		t.Errorf("bindings %s, left %v", got, i.Left)
	}
}

// bindingsOf returns the names of the bindings of policies.
func bindingsOf(t *testing.T, policies []api.Object) []any {
	t.Helper()
	documents, err := convert.Documents(policies)
	if err != nil {
		t.Fatal(err)
	}
	var names []any
	for _, d := range documents {
		for _, binding := range d["spec"].(map[string]any)["bindings"].([]any) {
			names = append(names, binding.(map[string]any)["name"])
		}
	}
	return names
}

// What the report names is in the library.
func TestNearest(t *testing.T) {
	t.Parallel()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, pack := range packs {
		for _, p := range pack.Policies {
			names[p.Name] = true
		}
	}
	for _, template := range []string{"k8srequiredlabels", "k8spspprivilegedcontainer", "k8spspreadonlyrootfilesystem"} {
		if gatekeeper.Nearest(template) == "" {
			t.Errorf("%s: no policy of the library", template)
		}
	}
	for template, policy := range gatekeeper.Templates() {
		if !names[policy] {
			t.Errorf("%s: %q is not in the library", template, policy)
		}
	}
}
