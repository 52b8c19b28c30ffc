package prove_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/convert/kyverno/prove"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/policytest"
)

func read(file string) ([]map[string]any, []*admissionv1.AdmissionRequest, error) {
	raw, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, nil, err
	}
	var all []map[string]any
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		asJSON, err := kyaml.YAMLToJSON([]byte(document))
		if err != nil {
			return nil, nil, err
		}
		var o map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &o); err != nil {
			return nil, nil, err
		}
		all = append(all, o)
	}
	return all, nil, nil
}

func options(kinds *kind.Set) prove.Options {
	return prove.Options{Kinds: kinds, Convert: func(ctx context.Context, objects []convert.Foreign) []convert.Import {
		return kyverno.Policies(ctx, objects, kyverno.Options{Kinds: kinds, Enforce: true})
	}}
}

// Each result of a test holds, differs, or says why nothing can be said.
func TestTests(t *testing.T) {
	t.Parallel()
	file := "testdata/kyverno-test.yaml"
	objects, _, err := read(file)
	if err != nil || !prove.IsTest(objects[0]) {
		t.Fatal(err)
	}
	var got []string
	for _, r := range prove.Tests(t.Context(), &convert.Foreign{Object: objects[0], File: file}, read, options(kind.Recorded())) {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", r.Name, r.Outcome, r.Why), ": "))
		if r.Outcome == proof.Unjudged || r.Outcome == proof.Misnamed {
			continue
		}
		c, ok := r.Case.(*policytest.Case)
		if !ok || c.Run(t.Context()).Status != policytest.Passed {
			t.Errorf("%s: the case does not pass", r.Name)
		}
	}
	expected := []string{
		"image-tags/tag/good holds", "image-tags/tag/latest holds", "image-tags/tag/untagged holds", "image-tags/autogen-latest/latest holds",
		"image-tags/latest/test/latest unjudged: no rule is for the object, so that it holds whatever it expects",
		"image-tags/latest/default/latest unjudged: it expects pass, and a webhook of Kyverno would answer fail to this request",
		"teams/known/ours holds", "teams/known/theirs holds",
		"teams/known/theirs unjudged: it is about the operation UPDATE, and does not say what the object was before",
		"teams/known/missing misnamed: there is no Service missing in its files",
		"teams/known/their misnamed: there is no Service their in its files; did you mean theirs?",
		"teams/other/ours misnamed: teams has no rule other",
		"teams/knwon/ours misnamed: teams has no rule knwon; did you mean known?",
		"generates/quota/a unjudged: it is left out: it generates objects",
		"none/r misnamed: there is no policy none in its files",
		"team/known misnamed: there is no policy team in its files; did you mean teams?",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(expected, "\n"); a != b {
		t.Errorf("got\n%s\nexpected\n%s", a, b)
	}
}

// A policy and what it became answer generated requests alike, and what is changed differs.
func TestGenerated(t *testing.T) {
	t.Parallel()
	o := options(kind.Recorded())
	objects, _, err := read("testdata/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	foreign := []convert.Foreign{{Object: objects[0], File: "policies.yaml"}}
	i := o.Convert(t.Context(), foreign)[0]
	rows := prove.Generated(t.Context(), &i, nil, o)
	if len(rows) != 1 || rows[0].Outcome != proof.Holds {
		t.Fatalf("got %v", rows)
	}
	policy, ok := i.To[0].(*v1alpha1.ClusterObjectPolicy)
	if !ok {
		t.Fatalf("got %T", i.To[0])
	}
	for n := range policy.Spec.Validations {
		policy.Spec.Validations[n].Expression = "true"
	}
	rows = prove.Generated(t.Context(), &i, nil, o)
	if len(rows) == 0 || rows[0].Outcome != proof.Differs {
		t.Errorf("got %v", rows)
	}
}
