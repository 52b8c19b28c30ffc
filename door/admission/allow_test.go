package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
)

// TestAlwaysAllow: whatever the decision is, and without one, the answer is that the request is allowed.
func TestAlwaysAllow(t *testing.T) {
	t.Parallel()
	review := func(object string) []byte {
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"ConfigMap"},
			"resource":{"version":"v1","resource":"configmaps"},"operation":"CREATE","namespace":"shop","name":"a","object":` + object + `}}`)
	}
	usual := review(`{"metadata":{"name":"a"}}`)
	for _, test := range []struct {
		reason  string
		decider usher.Decider
		body    []byte
	}{
		{"denied", always(usher.Denied("no")), usual},
		{"patched", always(usher.Patched(usher.PatchOp{Op: "add", Path: "/data", Value: "x"})), usual},
		{"no decision", usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Decision{}, errors.New("broken")
		}), usual},
		{"a panic", usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("broken") }), usual},
		{"too large", always(usher.Denied("no")), review(`{"data":"` + strings.Repeat("x", 20_000) + `"}`)},
		{"too deep", always(usher.Denied("no")), review(strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000))},
	} {
		o := quiet()
		o.AlwaysAllow, o.MaxBody = true, 40_000
		if test.reason == "too large" {
			o.MaxBody = 10_000
		}
		for phase, handler := range handlers(test.decider, o) {
			answered := post(handler, test.body)
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(answered.Body.Bytes(), &got); err != nil || got.Response == nil {
				t.Errorf("%s, %s: %d %s", test.reason, phase, answered.Code, answered.Body)
				continue
			}
			if !got.Response.Allowed || len(got.Response.Patch) > 0 {
				t.Errorf("%s, %s: %s", test.reason, phase, answered.Body)
			}
		}
	}
}
