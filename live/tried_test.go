package live_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

const misspelled = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: require-team}, spec: {
	matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
	validations: [{expression: "'team' in object.metdata.?labels.orValue({})", message: label team is required}]}}`

// run follows a folder with one policy until the test ends.
func run(t *testing.T, o live.Options, policy string) *live.Live {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	l := live.New(o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, dir.New(folder)) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return l
}

// createPod is the creation of a Pod, in the phase Validate.
func createPod() *usher.Request {
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "cart",
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: usher.RawObject([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop"}}`)),
	}
}

type log struct {
	sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

// A field that no object has is found by trying the policy: it compiles.
func TestProblemsHaveWhatTryingFinds(t *testing.T) {
	t.Parallel()
	var logged log
	l := run(t, live.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}, misspelled)
	if err := l.WaitTried(t.Context()); err != nil {
		t.Fatal(err)
	}
	problems := fmt.Sprint(l.Problems())
	for _, want := range []string{"mistake: ClusterObjectPolicy require-team: spec.validations[0].expression", "metdata"} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems %s, want %q", problems, want)
		}
	}
	logged.Lock()
	defer logged.Unlock()
	if strings.Count(logged.String(), "no Pod has metdata") != 1 {
		t.Errorf("the log does not have the problem once: %s", &logged.Buffer)
	}
}

func TestWaitTriedEndsWithRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(t, live.Options{}, misspelled).WaitTried(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// Policies select by these, so that a request without one would be allowed by all of them.
func TestIncompleteRequestsAreErrors(t *testing.T) {
	t.Parallel()
	l := run(t, live.Options{}, strings.Replace(misspelled, "metdata", "metadata", 1))
	if err := l.WaitLoaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason string
		change func(*usher.Request)
		err    string
	}{
		{"a whole request", func(*usher.Request) {}, ""},
		{"no operation", func(r *usher.Request) { r.Operation = "" }, `operation ""`},
		{"an operation that API servers do not have", func(r *usher.Request) { r.Operation = "create" }, `operation "create": expected one of ["CREATE"`},
		{"no kind", func(r *usher.Request) { r.Kind.Kind = "" }, "expected a kind"},
		{"no kind and no operation", func(r *usher.Request) { r.Kind, r.Operation = schema.GroupVersionKind{}, "" }, `operation ""`},
		{"no version", func(r *usher.Request) { r.Kind.Version = "" }, "expected a kind and its version"},
		{"no resource", func(r *usher.Request) { r.Resource = schema.GroupVersionResource{} }, "expected a resource"},
		{"a phase that nobody knows", func(r *usher.Request) { r.Phase = "bake" }, "phase"},
	} {
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			r := createPod()
			r.Phase = phase
			row.change(r)
			_, err := l.Decide(t.Context(), r)
			if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.HasPrefix(err.Error(), "decide request: ") || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("%s: error %v, want %q", row.reason, err, row.err)
			}
			if r.Phase == phase && row.err != "" && !l.Covers(r) {
				t.Errorf("%s: doors would not ask", row.reason)
			}
		}
	}
}

// Without an object a policy would decide about nothing.
func TestObjectsThatAPIServersSend(t *testing.T) {
	t.Parallel()
	l := run(t, live.Options{}, strings.Replace(misspelled, "metdata", "metadata", 1))
	if err := l.WaitLoaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := createPod().Object
	for _, row := range []struct {
		operation      usher.Operation
		object, before *usher.Object
		err            string
	}{
		{usher.Create, pod, nil, ""},
		{usher.Create, nil, nil, "object is missing: a request of the operation CREATE"},
		{usher.Create, nil, pod, "object is missing: a request of the operation CREATE"},
		{usher.Update, pod, pod, ""},
		{usher.Update, nil, pod, "object is missing: a request of the operation UPDATE"},
		{usher.Update, pod, nil, "oldObject is missing: a request of the operation UPDATE"},
		{usher.Delete, nil, pod, ""},
		{usher.Delete, pod, nil, "oldObject is missing: a request of the operation DELETE"},
		{usher.Delete, nil, nil, "oldObject is missing"},
		{usher.Connect, nil, nil, ""},
	} {
		r := createPod()
		r.Operation, r.Object, r.OldObject = row.operation, row.object, row.before
		_, err := l.Decide(t.Context(), r)
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%s, object %t, oldObject %t: error %v, want %q", row.operation, row.object != nil, row.before != nil, err, row.err)
		}
	}
	// Doors ask before they have read the object.
	r := createPod()
	r.Object = nil
	if !l.Covers(r) {
		t.Error("the creation of a Pod is not covered")
	}
	r.Operation = usher.Delete
	if l.Covers(r) {
		t.Error("a deletion, which no policy is for, is covered")
	}
}

// TestIncompleteAccessIsAnError: a denial would not match what a request does not say.
func TestIncompleteAccessIsAnError(t *testing.T) {
	t.Parallel()
	l := run(t, live.Options{}, strings.Replace(misspelled, "metdata", "metadata", 1))
	if err := l.WaitLoaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason string
		change func(*usher.Request)
		err    string
	}{
		{"a whole request", func(*usher.Request) {}, ""},
		{"a path", func(r *usher.Request) {
			r.Resource, r.Access = schema.GroupVersionResource{}, &usher.Access{Verb: "get", Path: "/metrics", NonResource: true}
		}, ""},
		{"a group alone", func(r *usher.Request) { r.User = usher.User{Groups: []string{"a"}} }, ""},
		{"no access", func(r *usher.Request) { r.Access = nil }, "access is missing"},
		{"no verb", func(r *usher.Request) { r.Access.Verb = "" }, "verb is missing"},
		{"a kind in place of a resource", func(r *usher.Request) {
			r.Kind, r.Resource = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, schema.GroupVersionResource{}
		}, "resource is missing"},
		{"no user", func(r *usher.Request) { r.User = usher.User{} }, "user is missing"},
	} {
		r := &usher.Request{
			Phase: usher.Authorize, Namespace: "shop", Name: "cart", User: usher.User{Name: "jane"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Access: &usher.Access{Verb: "get"},
		}
		row.change(r)
		if _, err := l.Decide(t.Context(), r); row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%s: error %v, want %q", row.reason, err, row.err)
		}
	}
	if _, err := l.Decide(t.Context(), nil); err == nil {
		t.Error("no request is no error")
	}
}

// TestRunWithoutSources: a program that forgot its policies would allow everything.
func TestRunWithoutSources(t *testing.T) {
	t.Parallel()
	l := live.New(live.Options{})
	err := l.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no source of policies") {
		t.Errorf("error %v", err)
	}
	if waited := l.WaitLoaded(t.Context()); waited == nil {
		t.Error("nothing is loaded, and that is no error")
	}
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "called before") {
		t.Errorf("the second time: error %v", err)
	}
}
