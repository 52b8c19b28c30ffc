package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
)

func TestAnnotate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		pod    string
		want   usher.Patch
	}{
		{
			"the map is made when there is none", `{"metadata":{"name":"cart"}}`,
			usher.Patch{{Op: "add", Path: "/metadata/annotations", Value: map[string]any{"example.com/greeting": "hello"}}},
		},
		{
			"other annotations stay", `{"metadata":{"annotations":{"a":"b"}}}`,
			usher.Patch{{Op: "add", Path: "/metadata/annotations/example.com~1greeting", Value: "hello"}},
		},
		{"who has one keeps it", `{"metadata":{"annotations":{"example.com/greeting":"bye"}}}`, nil},
	}
	for _, test := range tests {
		decision, err := annotate(t.Context(), &usher.Request{Object: usher.RawObject([]byte(test.pod))})
		if err != nil || decision.Verdict != usher.Allow {
			t.Errorf("%s: %s, %v", test.reason, decision.Verdict, err)
		}
		if diff := cmp.Diff(test.want, decision.Patch); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// What cannot be read is an error: the door denies it.
func TestAnnotateWithoutPod(t *testing.T) {
	t.Parallel()
	if decision, err := annotate(t.Context(), &usher.Request{}); err == nil {
		t.Errorf("decided %+v", decision)
	}
}
