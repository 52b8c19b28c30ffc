package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
)

const whole = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
	"uid": "u-1", "operation": "UPDATE", "name": "cart", "namespace": "shop", "subResource": "scale", "dryRun": true,
	"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
	"requestKind": {"group": "apps", "version": "v1beta1", "kind": "Deployment"},
	"requestResource": {"group": "apps", "version": "v1beta1", "resource": "deployments"},
	"userInfo": {"username": "jane", "uid": "7", "groups": ["shop"], "extra": {"a": ["b"]}},
	"object": {"a": 1}, "oldObject": {"a": 2}, "options": {"kind": "UpdateOptions"}}}`

// What programs make of a review is what the door makes of it.
func TestRequestOfIsThatOfTheDoor(t *testing.T) {
	t.Parallel()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(whole), &review); err != nil {
		t.Fatal(err)
	}
	var asked *usher.Request
	handler := admission.Mutate(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		asked = r
		return usher.Allowed(), nil
	}), admission.Options{})
	post(handler, []byte(whole))
	trees := cmp.Transformer("Tree", func(o *usher.Object) map[string]any {
		tree, err := o.Tree()
		if err != nil {
			t.Error(err)
		}
		return tree
	})
	if diff := cmp.Diff(asked, admission.RequestOf(review.Request), trees); diff != "" {
		t.Errorf("requests differ (-door +RequestOf):\n%s", diff)
	}
}

func TestDecideAsksBothPhases(t *testing.T) {
	t.Parallel()
	add := usher.Patched(usher.PatchOp{Op: "add", Path: "/b", Value: true})
	boom := errors.New("boom")
	for _, row := range []struct {
		reason             string
		request            usher.Request
		mutation           usher.Decision
		mutationErr        error
		object             string
		denied, err, asked string
		name               string
	}{
		{reason: "validation gets the changed object", request: usher.Request{Object: usher.RawObject([]byte(`{"a":1}`))}, mutation: add, object: `{"a":1,"b":true}`, asked: `{"a":1,"b":true}`},
		{reason: "the phase does not matter", request: usher.Request{Phase: usher.Validate, Object: usher.RawObject([]byte(`{}`))}, mutation: add, object: `{"b":true}`, asked: `{"b":true}`},
		{reason: "a deletion has no object", request: usher.Request{OldObject: usher.RawObject([]byte(`{}`))}, mutation: add, object: "null", asked: "null"},
		{
			reason: "a name is generated", request: usher.Request{Operation: usher.Create, Object: usher.RawObject([]byte(`{"metadata":{"generateName":"web-"}}`))},
			object: `{"metadata":{"generateName":"web-"}}`, asked: `{"metadata":{"generateName":"web-","name":"web-xxxxx"}}`, name: "web-xxxxx",
		},
		{
			reason: "a name that mutation has given is kept", request: usher.Request{Operation: usher.Create, Object: usher.RawObject([]byte(`{"metadata":{"generateName":"web-"}}`))},
			mutation: usher.Patched(usher.PatchOp{Op: "add", Path: "/metadata/name", Value: "x"}),
			object:   `{"metadata":{"generateName":"web-","name":"x"}}`, asked: `{"metadata":{"generateName":"web-","name":"x"}}`, name: "x",
		},
		{
			reason: "a long name is cut", request: usher.Request{Operation: usher.Create, Object: usher.RawObject([]byte(`{"metadata":{"generateName":"` + strings.Repeat("a", 70) + `"}}`))},
			object: `{"metadata":{"generateName":"` + strings.Repeat("a", 70) + `"}}`, name: strings.Repeat("a", 58) + "xxxxx",
			asked: `{"metadata":{"generateName":"` + strings.Repeat("a", 70) + `","name":"` + strings.Repeat("a", 58) + `xxxxx"}}`,
		},
		{
			reason: "an update generates nothing", request: usher.Request{Operation: usher.Update, Object: usher.RawObject([]byte(`{"metadata":{"generateName":"web-"}}`))},
			object: `{"metadata":{"generateName":"web-"}}`, asked: `{"metadata":{"generateName":"web-"}}`,
		},
		{reason: "mutation denies", mutation: usher.Denied("no"), object: "null", denied: "no"},
		{reason: "validation denies", request: usher.Request{Object: usher.RawObject([]byte(`{"bad":1}`))}, object: `{"bad":1}`, asked: `{"bad":1}`, denied: "bad"},
		{reason: "no decision", mutationErr: boom, err: "boom", object: "null"},
		{reason: "not JSON", request: usher.Request{Object: usher.RawObject([]byte(`{`))}, err: "decode object: ", object: "null"},
		{
			reason: "a patch that does not apply", request: usher.Request{Object: usher.RawObject([]byte(`{}`))},
			mutation: usher.Patched(usher.PatchOp{Op: "remove", Path: "/x"}), err: "apply patch: ", object: "null",
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			validated, name := "", ""
			result, err := admission.Decide(t.Context(), usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
				if r.Phase == usher.Mutate {
					return row.mutation, row.mutationErr
				}
				validated, name = text(t, r.Object), r.Name
				if strings.Contains(validated, "bad") {
					return usher.Denied("bad"), nil
				}
				return usher.Allowed(), nil
			}), &row.request)
			if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.HasPrefix(err.Error(), row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
			denied := ""
			if d := result.Denial(); d != nil {
				denied = d.Message
			}
			if denied != row.denied || name != row.name || validated != row.asked || text(t, result.Object) != row.object {
				t.Errorf("denied %q, name %q, validated %s, object %s; want %q, %s, %s", denied, name, validated, text(t, result.Object), row.denied, row.asked, row.object)
			}
		})
	}
}

func text(t *testing.T, o *usher.Object) string {
	t.Helper()
	tree, err := o.Tree()
	if err != nil {
		t.Fatal(err)
	}
	if tree == nil {
		return "null"
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// API servers ignore patches of validating webhooks, so a decider that is mounted with Validate by mistake
// would have no effect without a word.
func TestPatchesOfValidationAreLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	options := admission.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}
	handler := admission.Validate(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Patched(usher.PatchOp{Op: "add", Path: "/b", Value: true}), nil
	}), options)
	for range 2 {
		if answer := post(handler, []byte(whole)).Body.String(); !strings.Contains(answer, `"allowed":true`) || strings.Contains(answer, "patch") {
			t.Errorf("the answer is %s", answer)
		}
	}
	if strings.Count(logged.String(), "admission.Mutate") != 1 {
		t.Errorf("the log does not say once what is wrong: %s", logged.String())
	}
}

// TestReviewWithoutRequest: its request has no operation, which policies do not decide about.
func TestReviewWithoutRequest(t *testing.T) {
	t.Parallel()
	if request := admission.RequestOf((&admissionv1.AdmissionReview{}).Request); request == nil || request.Operation != "" {
		t.Errorf("got %+v", request)
	}
}

// TestWithoutRequestOrDeciderThereIsNoDecision calls Decide as a program with a mistake does.
func TestWithoutRequestOrDeciderThereIsNoDecision(t *testing.T) {
	t.Parallel()
	allow := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil })
	if _, err := admission.Decide(t.Context(), allow, nil); err == nil || err.Error() != "decide request: there is no request" {
		t.Errorf("without a request: %v", err)
	}
	if _, err := admission.Decide(t.Context(), nil, &usher.Request{}); err == nil || err.Error() != "decide request: there is no decider" {
		t.Errorf("without a decider: %v", err)
	}
}
