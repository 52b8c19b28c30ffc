package usher_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	usher "github.com/usher-dev/usher"
)

func TestPatchesAsJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		op     usher.PatchOp
		want   string
	}{
		{"a value", usher.PatchOp{Op: "add", Path: "/a", Value: int64(1)}, `{"op":"add","path":"/a","value":1}`},
		{"null is written: an add without value is not valid", usher.PatchOp{Op: "add", Path: "/a"}, `{"op":"add","path":"/a","value":null}`},
		{"a test for null", usher.PatchOp{Op: "test", Path: "/a"}, `{"op":"test","path":"/a","value":null}`},
		{"remove has no value", usher.PatchOp{Op: "remove", Path: "/a"}, `{"op":"remove","path":"/a"}`},
		{"not even one that is set", usher.PatchOp{Op: "remove", Path: "/a", Value: "x"}, `{"op":"remove","path":"/a"}`},
		{"the whole object", usher.PatchOp{Op: "replace", Value: map[string]any{}}, `{"op":"replace","path":"","value":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(usher.Patch{tt.op})
			if err != nil || string(got) != "["+tt.want+"]" {
				t.Errorf("got %s, %v, want [%s]", got, err, tt.want)
			}
		})
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	op := usher.PatchOp{Op: "remove", Path: "/a"}
	tests := []struct {
		name      string
		got, want usher.Decision
	}{
		{"Allowed", usher.Allowed(), usher.Decision{Verdict: usher.Allow}},
		{"Denied", usher.Denied("%d of %s", 2, "three"), usher.Decision{Verdict: usher.Deny, Message: "2 of three"}},
		{"Patched", usher.Patched(op), usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{op}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

func TestPolicyRefString(t *testing.T) {
	t.Parallel()
	for want, ref := range map[string]usher.PolicyRef{
		"ClusterOverridePolicy x":    {Kind: "ClusterOverridePolicy", Name: "x"},
		"OverridePolicy shop/labels": {Kind: "OverridePolicy", Namespace: "shop", Name: "labels"},
	} {
		if got := ref.String(); got != want {
			t.Errorf("String is %q, want %q", got, want)
		}
	}
}

func TestFindingsAsJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(usher.Finding{
		Policy:  usher.PolicyRef{Kind: "K", Name: "n"},
		Rule:    "spec.rules[0]",
		Outcome: usher.Failed,
		Err:     errors.New("what it says may not be for everyone"),
		Ignored: true,
	})
	want := `{"policy":{"kind":"K","name":"n"},"rule":"spec.rules[0]","outcome":"failed","ignored":true,"took":0}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestDeciderFunc(t *testing.T) {
	t.Parallel()
	r := &usher.Request{UID: "1"}
	d := usher.DeciderFunc(func(_ context.Context, got *usher.Request) (usher.Decision, error) {
		return usher.Denied("%s", got.UID), nil
	})
	if got, err := d.Decide(t.Context(), r); err != nil || got.Message != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string][]string{
		"":                              nil,
		"/":                             {""},
		"/metadata/labels/a~1b":         {"metadata", "labels", "a/b"},
		"/metadata/annotations/~01~1~0": {"metadata", "annotations", "~1/~"},
	} {
		if got := usher.Pointer(keys...); got != want {
			t.Errorf("%q: got %s, want %s", keys, got, want)
		}
	}
}

func TestValidated(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(usher.Allowed(), usher.Validated(nil)); diff != "" {
		t.Errorf("no errors: -want +got:\n%s", diff)
	}
	image := field.NewPath("spec", "containers").Index(0).Child("image")
	errs := field.ErrorList{field.Required(image, "where from?"), field.Invalid(image, "a:latest", "no latest")}
	want := usher.Decision{
		Verdict: usher.Deny, Code: 422, Reason: "Invalid", Fields: errs,
		Message: `[spec.containers[0].image: Required value: where from?, spec.containers[0].image: Invalid value: "a:latest": no latest]`,
	}
	if diff := cmp.Diff(want, usher.Validated(errs)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
