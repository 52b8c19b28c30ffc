package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/source"
)

// A harness runs a Live until the test ends.
type harness struct {
	t       testing.TB
	live    *live.Live
	log     *recorder
	updates chan live.Status
}

func start(t testing.TB, sources ...source.Source) *harness {
	t.Helper()
	return startWith(t, live.Options{}, sources...)
}

// startWith starts with options, to which it adds what the harness needs.
func startWith(t testing.TB, o live.Options, sources ...source.Source) *harness {
	t.Helper()
	h := &harness{t: t, log: &recorder{}, updates: make(chan live.Status, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	o.Log, o.OnUpdate = slog.New(slog.NewJSONHandler(h.log, nil)), func(s live.Status) {
		select {
		case h.updates <- s:
		case <-ctx.Done():
		}
	}
	h.live = live.New(o)
	ended := make(chan error, 1)
	go func() { ended <- h.live.Run(ctx, sources...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return h
}

// next waits for the next update that changes something.
func (h *harness) next() live.Status {
	h.t.Helper()
	select {
	case s := <-h.updates:
		return s
	case <-time.After(time.Minute):
		h.t.Fatal("no update within a minute")
		return live.Status{}
	}
}

func (h *harness) wantPatch(want string) {
	h.t.Helper()
	d, err := h.live.Decide(h.t.Context(), createPod())
	if err != nil {
		h.t.Fatalf("decide: %v", err)
	}
	got, err := json.Marshal(d.Patch)
	if err != nil {
		h.t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		h.t.Errorf("patch (-want +got):\n%s", d)
	}
}

// A script is a source that a test dictates.
type script struct {
	sets chan source.Set
}

func newScript() *script { return &script{sets: make(chan source.Set)} }

func (s *script) update(set source.Set) {
	s.sets <- set
}

func (s *script) Run(ctx context.Context, update func(source.Set)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case set := <-s.sets:
			update(set)
		}
	}
}

type sourceFunc func(ctx context.Context, update func(source.Set)) error

func (f sourceFunc) Run(ctx context.Context, update func(source.Set)) error { return f(ctx, update) }

// A recorder keeps log records.
type recorder struct {
	mu      sync.Mutex
	records []map[string]any
}

func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var record map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(line), &record); err != nil {
		return 0, err
	}
	r.records = append(r.records, record)
	return len(line), nil
}

func (r *recorder) find(message string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.records {
		if record["msg"] == message {
			return record
		}
	}
	return nil
}

func (r *recorder) count(message string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, record := range r.records {
		if record["msg"] == message {
			n++
		}
	}
	return n
}

func set(policies ...api.Policy) source.Set { return source.Set{Policies: policies} }

// label is a policy that sets a label on every Pod that has labels.
func label(name, key, value string) api.Policy {
	return policy(name, fmt.Sprintf(`{"plaintext": [{"path": "/metadata/labels/%s", "op": "add", "value": %q}]}`, key, value))
}

// broken is a policy that does not compile; with a suffix, another one.
func broken(name string, suffix ...string) api.Policy {
	return policy(name, fmt.Sprintf(`{"cue": %q}`, "patches: missing"+strings.Join(suffix, "")))
}

func policy(name, overriders string) api.Policy {
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "ClusterOverridePolicy", "metadata": {"name": %q},
		"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}], "overrideRules": [{"overriders": %s}]}
	}`, name, overriders))
	if err != nil {
		panic(err)
	}
	p.Locate = func(string, int, int) api.Position { return api.Position{File: name + ".yaml", Line: 7} }
	return p
}

func createPod() *usher.Request {
	return &usher.Request{
		Phase: usher.Mutate, Operation: usher.Create, Namespace: "shop", Name: "cart",
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: usher.RawObject([]byte(`{"apiVersion": "v1", "kind": "Pod",
			"metadata": {"name": "cart", "namespace": "shop", "labels": {}}}`)),
	}
}
