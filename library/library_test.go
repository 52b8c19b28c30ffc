package library_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/library"
)

// examined are the policies of Pod Security whose coverage and mutants are examined, unless
// USHER_LIBRARY is all: they take a second each, others up to a minute.
func examined() []string {
	return []string{
		"pod-security-baseline-host-path-volumes", "pod-security-baseline-privileged", "pod-security-restricted-volume-types", "pod-security-labels-namespaces",
	}
}

func packs(t *testing.T) []library.Pack {
	t.Helper()
	all, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCases runs the cases of each policy: all pass, they cover all of it, and no mutant goes unnoticed.
// Of the policies of Pod Security, which have many cases, this is so for some; make library examines
// all.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, pack := range packs(t) {
		for i := range pack.Policies {
			p := &pack.Policies[i]
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				tests := cases(t, p)
				for _, test := range tests {
					if result := test.Run(t.Context()); result.Status != policytest.Passed {
						t.Errorf("%s: %s: %s", test.Name, result.Status, result.Message)
					}
				}
				if p.Origin != p.Pack || compared(pack.Name) && !slices.Contains(examined(), p.Name) && os.Getenv("USHER_LIBRARY") != "all" {
					return
				}
				checkCoverage(t, p, tests)
				mutants, err := policytest.Mutate(t.Context(), tests, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range mutants.Survivors {
					t.Errorf("no case fails without %s, or with %s", s.Without, s.With)
				}
			})
		}
	}
}

// cases returns the tests of a policy. Those of one that the pack includes are for the policy as it
// is installed.
func cases(t *testing.T, p *library.Policy) []policytest.Test {
	t.Helper()
	file := filepath.Join(p.Pack, "cases", p.File+".yaml")
	if p.Origin != p.Pack {
		manifest, err := p.Manifest(library.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file = filepath.Join(dir, "cases", p.File+".yaml")
		for _, err := range []error{
			os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, p.Cases, 0o644), os.WriteFile(filepath.Join(dir, p.File+".yaml"), manifest, 0o644),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tests, err := policytest.Tests(file)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// compared reports whether the policies of a pack are compared with the admission plugin of Pod
// Security, on more pods than there are cases.
func compared(pack string) bool { return strings.HasPrefix(pack, "pod-security-") }

func checkCoverage(t *testing.T, p *library.Policy, tests []policytest.Test) {
	t.Helper()
	coverage, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	if len(coverage) != 1 || !strings.Contains(coverage[0].Set, p.Name) {
		t.Fatalf("cases are about %v, not only about %s", coverage, p.Name)
	}
	if missing := coverage[0].Missing; len(missing) > 0 {
		t.Errorf("not exercised: %s", strings.Join(missing, "; "))
	}
}

// TestPolicies is about what all policies have in common.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, pack := range packs(t) {
		for i := range pack.Policies {
			p := &pack.Policies[i]
			for _, problem := range problems(p) {
				t.Errorf("%s/%s: %s", pack.Name, p.File, problem)
			}
		}
	}
}

// problems returns what a policy lacks.
func problems(p *library.Policy) []string {
	var all []string
	spec := &p.Spec
	expect := func(ok bool, what string, args ...any) {
		if !ok {
			all = append(all, fmt.Sprintf(what, args...))
		}
	}
	expect(len(spec.Description) > 40, "description: say what the policy is for")
	expect(spec.Category != "", "category is missing")
	expect(spec.Severity != "", "severity is missing")
	expect(len(spec.Links) > 0, "links are missing")
	for _, link := range spec.Links {
		expect(strings.HasPrefix(link, "https://"), "link %s: expected https", link)
	}
	for i := range spec.Validations {
		v := &spec.Validations[i]
		expect(v.Name != "", "validations[%d] has no name: exemptions need one", i)
		expect(v.Message != "" || v.MessageExpression != "", "validations[%d] has no message", i)
	}
	for i := range spec.Mutations {
		expect(spec.Mutations[i].Name != "", "mutations[%d] has no name", i)
	}
	if len(spec.Validations) > 0 && p.Pack != "pod-security-labels" {
		// There, the labels of namespaces decide what follows, and without labels nothing does.
		warns := len(spec.Bindings) == 1 && slices.Equal(spec.Bindings[0].ValidationActions, []admissionv1.ValidationAction{admissionv1.Warn})
		expect(warns, "bindings: expected one with validationActions: [Warn]")
	}
	if len(spec.Data) > 0 {
		expect(spec.FailurePolicy == admissionv1.Ignore, "failurePolicy: expected Ignore: Usher may not have the right to read data")
	}
	return all
}

// TestManifest is about the settings of policies, and bindings that exist.
func TestManifest(t *testing.T) {
	t.Parallel()
	found, err := library.Select(packs(t), []string{"allowed-registries"})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	p := &found[0]
	for _, row := range []struct {
		reason   string
		settings library.Settings
		want     string
	}{
		{"the pack decides", library.Settings{}, "[{everywhere [Warn] {registries: [registry.example.com, registry.k8s.io]}}]"},
		{"an action", library.Settings{Action: "Deny"}, "[{everywhere [Deny] {registries: [registry.example.com, registry.k8s.io]}}]"},
		{"a param", library.Settings{Params: map[string]any{"registries": []any{"a.example"}}}, "[{everywhere [Warn] {registries: [a.example]}}]"},
		{"bindings that exist stay, and get the params that they do not have", library.Settings{
			Bindings: []byte(`[{"name":"mine","validationActions":["Audit"],"params":{"registries":["b.example"]}},{"name":"other","validationActions":["Deny"]}]`),
		}, "[{mine [Audit] {registries: [b.example]}} {other [Deny] {registries: [registry.example.com, registry.k8s.io]}}]"},
		{"an action for bindings that exist", library.Settings{Action: "Warn", Bindings: []byte(`[{"name":"mine","params":{"registries":["b.example"]}}]`)}, "[{mine [Warn] {registries: [b.example]}}]"},
	} {
		manifest, err := p.Manifest(row.settings)
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
			continue
		}
		if diff := cmp.Diff(row.want, bindings(t, manifest)); diff != "" {
			t.Errorf("%s: bindings (-want +got):\n%s", row.reason, diff)
		}
		if !bytes.Contains(manifest, []byte("    usher.dev/pack: supply-chain\n")) || !bytes.Contains(manifest, []byte("    usher.dev/pack-version: 1.0.0\n")) {
			t.Errorf("%s: the manifest does not say where it is from:\n%s", row.reason, manifest)
		}
	}
}
