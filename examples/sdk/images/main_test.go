package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
)

func TestImages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		spec   string
		want   []string
	}{
		{"all is well", `{"initContainers":[{"image":"registry.example.com/init:1"}],"containers":[{"image":"registry.example.com/a@sha256:0"}]}`, nil},
		{"no tag", `{"containers":[{"image":"registry.example.com/a"}]}`, []string{
			`spec.containers[0].image: Invalid value: "registry.example.com/a": a tag other than latest is required`,
		}},
		{"every one is named", `{"initContainers":[{"image":"b:1"}],"containers":[{"image":"registry.example.com/a:1"},{"image":"registry.example.com/a:latest"}],"ephemeralContainers":[{"image":"c"}]}`, []string{
			`spec.initContainers[0].image: Invalid value: "b:1": images come from registry.example.com/`,
			`spec.containers[1].image: Invalid value: "registry.example.com/a:latest": a tag other than latest is required`,
			`spec.ephemeralContainers[0].image: Invalid value: "c": images come from registry.example.com/`,
		}},
	}
	for _, test := range tests {
		decision, err := images(t.Context(), &usher.Request{Object: usher.RawObject([]byte(`{"spec":` + test.spec + `}`))})
		if err != nil || (decision.Verdict == usher.Deny) != (test.want != nil) {
			t.Errorf("%s: %s, %v", test.reason, decision.Verdict, err)
		}
		var got []string
		for _, err := range decision.Fields {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestImagesWithoutPod(t *testing.T) {
	t.Parallel()
	if decision, err := images(t.Context(), &usher.Request{}); err == nil {
		t.Errorf("decided %+v", decision)
	}
}
