package rule_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

func TestSubjectOf(t *testing.T) {
	t.Parallel()
	type subject struct {
		APIVersion, Kind, Namespace, Name string
		Labels                            map[string]string
	}
	request := &usher.Request{Operation: usher.Update, Name: "asked", Namespace: "asked-ns"}
	tests := []struct {
		reason string
		object map[string]any
		want   subject
	}{
		{"an object has a name, a namespace and labels of its own", cart, subject{"v1", "Pod", "shop", "cart", map[string]string{"app": "cart", "tier": "gold"}}},
		{
			"what its metadata lack is empty: the request does not fill it in",
			map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{}},
			subject{"v1", "Pod", "", "", nil},
		},
		{
			"without metadata the request says what is meant",
			map[string]any{"apiVersion": "v1", "kind": "PodExecOptions"},
			subject{"v1", "PodExecOptions", "asked-ns", "asked", nil},
		},
		{
			"what has the wrong type is not there",
			map[string]any{"apiVersion": int64(1), "kind": true, "metadata": map[string]any{"name": int64(1), "namespace": nil, "labels": "x"}},
			subject{},
		},
		{"no object", nil, subject{Namespace: "asked-ns", Name: "asked"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			s := rule.TargetOf(request, tt.object)
			got := subject{s.APIVersion, s.Kind, s.Namespace, s.Name, nil}
			if labels := maps.Collect(s.EachLabel); len(labels) > 0 {
				got.Labels = labels
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if s.Operation != usher.Update {
				t.Errorf("Operation is %s", s.Operation)
			}
			if n := s.LabelCount(); n < len(got.Labels) {
				t.Errorf("LabelCount is %d, there are %d", n, len(got.Labels))
			}
		})
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	s := rule.TargetOf(&usher.Request{}, cart)
	for key, want := range map[string]string{"app": "cart", "tier": "gold", "count": "", "none": ""} {
		value, ok := s.Labels().Lookup(key)
		if ok != (want != "") || s.Labels().Has(key) != ok || value != want || s.Labels().Get(key) != want {
			t.Errorf("%s: Lookup %q, %t; Has %t; Get %q", key, value, ok, s.Labels().Has(key), s.Labels().Get(key))
		}
	}
	for range s.EachLabel {
		break
	}
}
