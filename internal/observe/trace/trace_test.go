package trace_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/trace"
	"github.com/usher-dev/usher/internal/rule"
)

func TestTracePicksRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		options trace.Options
		want    bool
	}{
		{"nothing is asked for", trace.Options{}, false},
		{"a label, whatever its value", trace.Options{Label: trace.Mark{Key: "app"}}, true},
		{"a label with its value", trace.Options{Label: trace.Mark{Key: "app", Value: "web"}}, true},
		{"a label with another value", trace.Options{Label: trace.Mark{Key: "app", Value: "db"}}, false},
		{"an annotation", trace.Options{Annotation: trace.Mark{Key: "trace", Value: "yes"}}, true},
		{"what is a label is no annotation", trace.Options{Annotation: trace.Mark{Key: "app"}}, false},
		{"all requests", trace.Options{Sample: 1}, true},
	}
	for _, tt := range tests {
		var log bytes.Buffer
		decide(t, trace.Wrap(usher.DeciderFunc(labels), tt.options, rules, logTo(&log)), "uid-1", "ConfigMap")
		if got := strings.Contains(log.String(), "msg=trace"); got != tt.want {
			t.Errorf("%s: traced %v, want %v: %s", tt.reason, got, tt.want, log.String())
		}
	}
}

func TestTraceSamplesAShare(t *testing.T) {
	t.Parallel()
	const requests = 4000
	var log bytes.Buffer
	traced := trace.Wrap(usher.DeciderFunc(labels), trace.Options{Sample: 0.25}, rules, logTo(&log))
	for i := range requests {
		decide(t, traced, fmt.Sprintf("705ab4f5-6393-11e8-b7cc-42010a8%05d", i), "ConfigMap")
	}
	// What is picked follows from the uids, which are the same in every run.
	if got := strings.Count(log.String(), "msg=trace"); got < requests/5 || got > requests*3/10 {
		t.Errorf("%d of %d requests are traced, want about a quarter", got, requests)
	}
}

func TestTraceTellsNoSecrets(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"ConfigMap": true, "Secret": false} {
		var log bytes.Buffer
		decide(t, trace.Wrap(usher.DeciderFunc(labels), trace.Options{Sample: 1}, rules, logTo(&log)), "uid-1", kind)
		if !strings.Contains(log.String(), "ClusterOverridePolicy") {
			t.Errorf("%s: the trace names no policy: %s", kind, log.String())
		}
		if got := strings.Contains(log.String(), "hunter2"); got != want {
			t.Errorf("%s: the trace tells the value: %v, want %v: %s", kind, got, want, log.String())
		}
	}
}

func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

var policy = usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: "label"}

func rules(string) []rule.Rule {
	return []rule.Rule{{Policy: policy, Name: "spec.overrideRules[0]", Phase: usher.Mutate}}
}

// labels answers as such a rule would.
func labels(context.Context, *usher.Request) (usher.Decision, error) {
	d := usher.Patched(usher.PatchOp{Op: "add", Path: "/data/password", Value: "hunter2"})
	d.Findings = []usher.Finding{{Policy: policy, Rule: "spec.overrideRules[0]", Outcome: usher.Changed, Message: "hunter2", Patch: d.Patch}}
	return d, nil
}

func decide(t *testing.T, d usher.Decider, uid, kind string) {
	t.Helper()
	got, err := d.Decide(t.Context(), &usher.Request{
		UID: uid, Phase: usher.Mutate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: kind},
		Object: usher.TreeObject(map[string]any{
			"apiVersion": "v1", "kind": kind, "data": map[string]any{},
			"metadata": map[string]any{"name": "a", "labels": map[string]any{"app": "web"}, "annotations": map[string]any{"trace": "yes"}},
		}),
	})
	if err != nil || len(got.Patch) != 1 {
		t.Fatalf("decision is %v, %v: want that of the decider", got, err)
	}
}
