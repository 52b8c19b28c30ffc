package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/audit/store"
)

// TestEqualValuesAreKeptOnce: the namespace that had a value first pays for it until nobody has it.
func TestEqualValuesAreKeptOnce(t *testing.T) {
	t.Parallel()
	n := store.NewNotes()
	first, again, other := n.Intern("a", "text"), n.Intern("b", "text"), n.Intern("b", "longer text")
	if first != again || first == other {
		t.Error("equal texts are not the same value, or different ones are")
	}
	used := func(reason string, want map[string]int64) {
		t.Helper()
		if diff := cmp.Diff(want, n.Used()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	used("two values", map[string]int64{"a": 4, "b": 11})
	n.Release(first)
	used("b still has the text", map[string]int64{"a": 4, "b": 11})
	n.Release(again)
	used("nobody has the text", map[string]int64{"b": 11})
	n.Release(nil)
	n.Release(other)
	used("nobody has anything", map[string]int64{})
	if diff := cmp.Diff([]string{"text", "longer text"}, n.Disposed); diff != "" {
		t.Errorf("disposed (-want +got):\n%s", diff)
	}
	if n.Intern("c", "text") == first {
		t.Error("a value that was disposed of is returned")
	}
	used("the text is back", map[string]int64{"c": 4})
}

// TestLevels: those who take most lose what they have above the others.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason       string
		all          []int64
		excess, want int64
	}{
		{"nobody takes anything", nil, 10, 0},
		{"one takes all", []int64{100}, 30, 70},
		{"the largest one pays", []int64{100, 20, 10}, 30, 70},
		{"it pays until it is as large as the next", []int64{100, 20, 10}, 80, 20},
		{"then both pay", []int64{100, 20, 10}, 90, 15},
		{"all pay alike", []int64{50, 50, 50}, 30, 40},
		{"a rest is paid by all", []int64{50, 50}, 1, 49},
		{"everything is not enough", []int64{50, 50}, 200, 0},
	} {
		if got := store.LevelOf(row.all, row.excess); got != row.want {
			t.Errorf("%s: the level is %d, want %d", row.reason, got, row.want)
		}
	}
}

// TestFullReadsAreRare asks for full reads of a kind that takes a minute to read.
func TestFullReadsAreRare(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &store.Reading{}
	due := func(reason string, want bool, wantWait time.Duration) {
		t.Helper()
		if got, wait := r.Due(now); got != want || wait != wantWait {
			t.Errorf("%s: %t, in %s; want %t, in %s", reason, got, wait, want, wantWait)
		}
	}
	due("nobody requests one", false, 0)
	if !r.Request() || r.Request() {
		t.Error("a request is one only if there is none")
	}
	due("the first is due at once", true, 0)
	due("it is asked for once", false, 0)
	r.Begin(now)
	if r.Request() {
		t.Error("it is being read")
	}
	now = now.Add(time.Minute)
	r.End(now)
	due("nobody requests another one", false, 0)
	r.Request()
	due("it waits ten times as long as the last one took", false, 10*time.Minute)
	now = now.Add(10 * time.Minute)
	due("then it is due", true, 0)
}
