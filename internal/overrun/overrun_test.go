package overrun_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/overrun"
)

func policy(name string) usher.PolicyRef { return usher.PolicyRef{Kind: "P", Name: name} }

// TestWatch leaves evaluations that end at some time after they were due.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		// The evaluation ends that long after it was due.
		ends time.Duration
		// refused says that the rule is refused while it runs, overran that it is late, and suspended that
		// it is refused when it has ended.
		refused, overran, suspended bool
	}{
		{"it ends before it is late", 500 * time.Millisecond, true, false, false},
		{"it is late", 5 * time.Second, true, true, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := overrun.New(overrun.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				g := w.Go(func() { time.Sleep(row.ends + time.Second) })
				if g.Wait(time.Second) {
					t.Fatal("it has ended")
				}
				g.Leave(overrun.Overrun{Policy: policy("a"), Rule: "r", User: "eve", Namespace: "shop", Due: time.Now()})
				refused := func(name, user string) bool {
					_, err := w.Allow(policy(name), "r", user, "shop")
					return err != nil
				}
				if refused("a", "eve") != row.refused || refused("b", "eve") || refused("a", "ann") {
					t.Error("it is refused to the wrong ones while it runs")
				}
				time.Sleep(row.ends - time.Millisecond)
				if late := w.State().Late; (len(late) == 1) != row.overran {
					t.Errorf("late are %+v", late)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				state := w.State()
				if len(state.Late) != 0 || (state.Overruns == 1) != row.overran || refused("a", "eve") != row.suspended || refused("a", "ann") {
					t.Errorf("afterwards the state is %+v", state)
				}
				if _, err := w.Allow(policy("a"), "r", "eve", "shop"); err != nil && !errors.Is(err, breaker.ErrSuspended) {
					t.Errorf("it is refused with %v", err)
				}
				text := log.String()
				if logged := strings.Count(text, "evaluation goes on after its time"); (logged == 1) != row.overran || row.overran && !strings.Contains(text, "overrun_test.go") {
					t.Errorf("logged:\n%s", text)
				}
			})
		})
	}
}

// TestSick says when a process should be replaced.
func TestSick(t *testing.T) {
	t.Parallel()
	now := time.Now()
	late := func(ages ...time.Duration) overrun.State {
		var s overrun.State
		for _, age := range ages {
			s.Late = append(s.Late, overrun.Overrun{Due: now.Add(-age)})
		}
		return s
	}
	for _, row := range []struct {
		reason string
		state  overrun.State
		want   string
	}{
		{"nothing is late", late(), ""},
		{"one is late", late(29*time.Second, 2*time.Second), ""},
		{"one does not end", late(30*time.Second, 2*time.Second), "an evaluation goes on 30s after its time"},
		{"many are late", late(5*time.Second, 4*time.Second, 3*time.Second, 2*time.Second, 2*time.Second), "5 evaluations go on after their time"},
	} {
		if got := row.state.Sick(now); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

// TestGoroutines are used again unless their task has not ended well, and end with the watch.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overrun.New(overrun.Options{Idle: 1})
		wait := func(task func()) (panicked any) {
			defer func() { panicked = recover() }()
			if !w.Go(task).Wait(time.Minute) {
				t.Error("it has not ended")
			}
			return nil
		}
		for range 3 {
			if panicked := wait(func() {}); panicked != nil {
				t.Errorf("panicked: %v", panicked)
			}
			p, ok := wait(func() { panic("oops") }).(*overrun.Panic)
			if !ok || p.Value != "oops" || !strings.Contains(string(p.Stack), "overrun_test.go") {
				t.Errorf("panicked: %v", p)
			}
			if p, ok := wait(runtime.Goexit).(*overrun.Panic); !ok {
				t.Errorf("a task that ends its goroutine: %v", p)
			}
		}
		ended := w.Go(func() {})
		synctest.Wait()
		ended.Leave(overrun.Overrun{Policy: policy("a"), Rule: "r", Due: time.Now()})
		if _, err := w.Allow(policy("a"), "r", "", ""); err != nil {
			t.Errorf("a rule that had ended when it was left: %v", err)
		}
		w.Close()
		wait(func() {})
	})
}
