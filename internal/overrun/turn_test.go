package overrun_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/overrun"
)

const long = time.Second

// holders returns evaluations of a namespace that have all turns there are.
func holders(t *testing.T, w *overrun.Watch, namespace string) []*overrun.Turn {
	t.Helper()
	var all []*overrun.Turn
	for range max(runtime.GOMAXPROCS(0)/2, 1) {
		turn := w.Turn(namespace)
		if err := turn.Wait(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		all = append(all, turn)
	}
	return all
}

// TestTurns has evaluations of two namespaces wait: these take turns, however many one of them has waiting.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overrun.New(overrun.Options{})
		held := holders(t, w, "a")
		var order []string
		for _, namespace := range []string{"a", "a", "a", "b", "b"} {
			go func() {
				turn := w.Turn(namespace)
				if err := turn.Wait(t.Context(), long); err != nil {
					t.Error(err)
				}
				order = append(order, namespace)
				turn.End()
			}()
			synctest.Wait()
		}
		if err := w.Turn("a").Wait(t.Context(), time.Millisecond); err != nil {
			t.Errorf("one that is short: %v", err)
		}
		held[0].End()
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b", "a", "b", "a"}, order); diff != "" {
			t.Errorf("in the order (-want +got):\n%s", diff)
		}
	})
}

// TestTurnsEnd: who has a turn goes on while nobody waits, and else gives it up after a while.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overrun.New(overrun.Options{})
		first := holders(t, w, "a")[0]
		time.Sleep(100 * time.Millisecond)
		if err := first.Wait(t.Context(), long); err != nil {
			t.Errorf("while nobody waits: %v", err)
		}
		second, got := w.Turn("b"), make(chan error, 1)
		go func() { got <- second.Wait(t.Context(), long) }()
		synctest.Wait()
		again := make(chan error, 1)
		go func() { again <- first.Wait(t.Context(), long) }()
		synctest.Wait()
		if err := <-got; err != nil {
			t.Errorf("who has waited: %v", err)
		}
		select {
		case err := <-again:
			t.Errorf("both go on: %v", err)
		default:
		}
		second.End()
		if err := <-again; err != nil {
			t.Errorf("who has given up its turn: %v", err)
		}
	})
}

// TestTurnsThatAreNotGiven: not to too many of one namespace, not for longer than the context allows, and not
// to what nobody waits for. None of these keeps a turn.
func TestTurnsThatAreNotGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overrun.New(overrun.Options{})
		held := holders(t, w, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error, 100)
		waiting := 0
		for {
			go func() { errs <- w.Turn("a").Wait(ctx, long) }()
			synctest.Wait()
			if len(errs) > 0 {
				break
			}
			waiting++
		}
		if err := <-errs; !errors.Is(err, overrun.ErrBusy) || waiting < 2 {
			t.Errorf("%d wait, and the next one has %v", waiting, err)
		}
		for range waiting {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("whose time is over: %v", err)
			}
		}
		late := w.Turn("a")
		if err := late.Wait(ctx, long); err == nil || !late.Starved() || held[0].Starved() {
			t.Errorf("whose time is over has %v, and does not know that it waited", err)
		}
		held[0].Leave()
		if err := held[0].Wait(t.Context(), long); !errors.Is(err, overrun.ErrBusy) {
			t.Errorf("for which nobody waits: %v", err)
		}
		if err := w.Turn("a").Wait(t.Context(), long); err != nil {
			t.Errorf("after them: %v", err)
		}
	})
}

// TestTurnsHaveABudget: a namespace whose evaluations have taken much waits, while others have turns, and goes
// on a while later.
func TestTurnsHaveABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overrun.New(overrun.Options{})
		turn, took := w.Turn("a"), time.Duration(0)
		for soon(t, turn) == nil {
			time.Sleep(time.Millisecond)
			took += time.Millisecond
		}
		if took < 100*time.Millisecond || took > time.Second {
			t.Errorf("its turns end after %v", took)
		}
		if err := soon(t, w.Turn("a")); err == nil {
			t.Error("another evaluation of the namespace goes on")
		}
		if err := briefly(t, w.Turn("a")); err == nil {
			t.Error("a short one goes on while the budget is spent")
		}
		other := w.Turn("b")
		if err := briefly(t, w.Turn("b")); err != nil {
			t.Errorf("a short one of another namespace: %v", err)
		}
		if err := soon(t, other); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		other.End()

		begun := time.Now()
		took = 0
		for took < time.Second {
			if err := turn.Wait(t.Context(), long); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			took += time.Millisecond
		}
		turn.End()
		if part := float64(took) / float64(time.Duration(runtime.GOMAXPROCS(0))*time.Since(begun)); part > 0.06 || part < 0.04 {
			t.Errorf("its evaluations have taken %.3f of the processors", part)
		}
	})
}

// soon waits a millisecond for a turn, and briefly for an evaluation that has taken little.
func soon(t *testing.T, turn *overrun.Turn) error { return within(t, turn, long) }

func briefly(t *testing.T, turn *overrun.Turn) error { return within(t, turn, time.Microsecond) }

func within(t *testing.T, turn *overrun.Turn, taken time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	return turn.Wait(ctx, taken)
}
