package live_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// What would allow everything, or fail later, is an error of Run, and one of those who wait for policies.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		options live.Options
		sources []source.Source
		err     string
	}{
		{"no source", live.Options{}, nil, "there is no source of policies"},
		{"a source that is nil", live.Options{}, []source.Source{dir.New("."), nil}, "a source of policies is nil"},
		{"a failure policy that is none", live.Options{FailurePolicy: "ignore"}, []source.Source{dir.New(".")}, `FailurePolicy is "ignore": write Fail or Ignore`},
		{"a source without a path", live.Options{}, []source.Source{dir.New()}, "there are no paths"},
	} {
		l := live.New(row.options)
		err := l.Run(t.Context(), row.sources...)
		if err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: Run: %v, want %q", row.reason, err, row.err)
		}
		if err := l.WaitLoaded(t.Context()); err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: WaitLoaded: %v, want %q", row.reason, err, row.err)
		}
		if _, err := l.Decide(t.Context(), createPod()); err == nil {
			t.Errorf("%s: a request is decided", row.reason)
		}
	}
}

// Without Run nobody loads policies, and those who wait for them learn why.
func TestWaitWithoutRun(t *testing.T) {
	t.Parallel()
	l := live.New(live.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, wait := range map[string]func(context.Context) error{"WaitLoaded": l.WaitLoaded, "WaitTried": l.WaitTried} {
		if err := wait(ctx); !errors.Is(err, live.ErrNotLoaded) || !strings.Contains(err.Error(), "Run was not called") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder may get policies later: until then it allows everything, which is told.
func TestNoPoliciesAreTold(t *testing.T) {
	t.Parallel()
	var logged log
	l := run(t, live.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}, "{apiVersion: v1, kind: ConfigMap, metadata: {name: no-policy}}")
	if err := l.WaitTried(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Decide(t.Context(), createPod()); err != nil || d.Verdict == usher.Deny {
		t.Errorf("decision %v, %v", d, err)
	}
	if all := l.Problems(); len(all) != 1 || !strings.HasPrefix(all[0].String(), "warning: there are no policies") {
		t.Errorf("problems %v", all)
	}
	logged.Lock()
	defer logged.Unlock()
	if text := logged.String(); !strings.Contains(text, `level=WARN msg="there are no policies`) {
		t.Errorf("log: %s", text)
	}
}
