package kyverno_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/policytest"
)

// different tells which rows a policy answers in another way.
func different(t *testing.T) func(file, row string) bool {
	t.Helper()
	differences, err := corpus.Differences("testdata/different.yaml")
	if err != nil || len(differences) == 0 {
		t.Fatal(err, len(differences))
	}
	return func(file, row string) bool {
		return slices.ContainsFunc(differences, func(d corpus.Difference) bool { return d.Is(file, row) })
	}
}

// TestCorpus: what is converted answers each request as Kyverno's engine does.
func TestCorpus(t *testing.T) {
	t.Parallel()
	kinds, err := corpus.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	files, err := corpus.Load("testdata/corpus")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	changes, err := corpus.Load("testdata/mutations")
	if err != nil || len(changes) == 0 {
		t.Fatal(err, len(changes))
	}
	files = append(files, changes...)
	differs := different(t)
	for i := range files {
		f := &files[i]
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			testFile(t, f, kinds, differs)
		})
	}
}

func testFile(t *testing.T, f *corpus.File, kinds *kind.Set, different func(file, row string) bool) {
	objects := []convert.Foreign{{Object: f.Policy}}
	for _, e := range f.Exceptions {
		objects = append(objects, convert.Foreign{Object: e})
	}
	i := kyverno.Policies(t.Context(), objects, kyverno.Options{Kinds: kinds, Enforce: true})[0]
	if len(i.To) == 0 {
		if len(i.Left) == 0 {
			t.Fatal("it is left out without a reason")
		}
		t.Skip("left out: ", i.Left[0].Field, ": ", i.Left[0].What)
	}
	// What is audited or warned of is what would be denied.
	for _, o := range i.To {
		var spec *v1alpha1.ObjectPolicySpec
		switch p := o.(type) {
		case *v1alpha1.ClusterObjectPolicy:
			spec = &p.Spec.ObjectPolicySpec
		case *v1alpha1.ObjectPolicy:
			spec = &p.Spec
		}
		for n := range spec.Bindings {
			spec.Bindings[n].ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
		}
	}
	documents, err := convert.Documents(i.To)
	if err != nil {
		t.Fatal(err)
	}
	cases := make([]*policytest.Case, len(f.Rows))
	for n := range f.Rows {
		cases[n] = caseOf(&f.Rows[n], documents)
	}
	policytest.Together(cases...)
	for n, c := range cases {
		row := &f.Rows[n]
		if row.Answers == nil {
			continue
		}
		result := c.Run(t.Context())
		if *c.Expect.Allowed && result.Status != policytest.Passed {
			c.Expect.NoMatch = true
			if unmatched := c.Run(t.Context()); unmatched.Status == policytest.Passed {
				result = unmatched
			}
		}
		switch passed, differs := result.Status == policytest.Passed, different(f.Name, row.Name); {
		case passed && differs:
			t.Errorf("%s: the answers are the same: testdata/different.yaml says that they differ", row.Name)
		case !passed && !differs:
			t.Errorf("%s: %v: %s\n%s", row.Name, row.Answers, result.Message, expressions(documents))
		}
	}
}

// caseOf returns a row as a case about policies.
func caseOf(row *corpus.Row, policies []map[string]any) *policytest.Case {
	c := &policytest.Case{Name: row.Name, Phase: usher.Validate, Policies: policies}
	c.Objects = slices.Concat(row.Data, interpret.User(row.User).Bindings())
	r := &c.Request
	r.Operation, r.Object, r.OldObject, r.Subresource = usher.Operation(row.Operation), row.Object, row.OldObject, row.Subresource
	r.User.Name, r.User.Groups = cmp.Or(row.User.Name, "system:anonymous"), append([]string{"system:authenticated"}, row.User.Groups...)
	of := r.Object
	if of == nil {
		of = r.OldObject
	}
	metadata, _ := of["metadata"].(map[string]any)
	r.Namespace, _ = metadata["namespace"].(string)
	if of["kind"] == "Namespace" {
		r.Namespace, _ = metadata["name"].(string)
		// An API server sets it.
		labels, _ := metadata["labels"].(map[string]any)
		if labels = maps.Clone(labels); labels == nil {
			labels = map[string]any{}
		}
		labels["kubernetes.io/metadata.name"] = r.Namespace
		metadata["labels"] = labels
	}
	if r.Namespace != "" {
		labels := map[string]any{"kubernetes.io/metadata.name": r.Namespace}
		for key, value := range row.NamespaceLabels {
			labels[key] = value
		}
		c.Objects = append(c.Objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": r.Namespace, "labels": labels}})
	}
	allowed := true
	for _, answer := range row.Answers {
		allowed = allowed && answer != "fail" && answer != "error" && answer != "panic"
	}
	c.Expect = &policytest.Expect{Allowed: &allowed}
	if mutates(policies) {
		c.Phase, c.Expect.PatchedObject, c.Expect.Unchanged = usher.Mutate, row.Patched, row.Patched == nil
	}
	return c
}

// expressions returns the parts of policies that decide.
func expressions(documents []map[string]any) string {
	var b strings.Builder
	for _, d := range documents {
		spec := d["spec"].(map[string]any)
		fmt.Fprintln(&b, "rules", spec["matchConstraints"], "conditions", spec["matchConditions"], "variables", spec["variables"])
		for _, field := range []string{"validations", "mutations"} {
			list, _ := spec[field].([]any)
			for _, v := range list {
				fmt.Fprintln(&b, v)
			}
		}
	}
	return b.String()
}

// mutates reports whether policies change objects.
func mutates(documents []map[string]any) bool {
	return slices.ContainsFunc(documents, func(d map[string]any) bool {
		spec, _ := d["spec"].(map[string]any)
		return spec["mutations"] != nil
	})
}
