package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/audit/queue"
)

// An item is named for its group, its lane and a number.
type item struct {
	queue.Entry

	name string
}

// world is a queue and the items that were added to it.
type world struct {
	*queue.Queue[string, string, *item]

	items map[string]*item
}

func newWorld() *world {
	return &world{queue.New[string, string, *item](), map[string]*item{}}
}

// add queues items such as pods/a/1.
func (w *world) add(priority queue.Priority, names ...string) {
	for _, name := range names {
		if w.items[name] == nil {
			w.items[name] = &item{name: name}
		}
		parts := strings.Split(name, "/")
		w.Add(parts[0], parts[1], w.items[name], priority)
	}
}

// all empties the queue.
func (w *world) all() (names []string) {
	for {
		next, ok := w.Next()
		if !ok {
			return names
		}
		names = append(names, next.name)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		do     func(w *world)
		want   []string
	}{
		{"nothing", func(*world) {}, nil},
		{"in the order in which they come", func(w *world) { w.add(queue.Low, "k/a/1", "k/a/2", "k/a/3") }, []string{"k/a/1", "k/a/2", "k/a/3"}},
		{"lanes take turns", func(w *world) { w.add(queue.Low, "k/a/1", "k/a/2", "k/a/3", "k/b/1", "k/b/2") }, []string{"k/a/1", "k/b/1", "k/a/2", "k/b/2", "k/a/3"}},
		{"groups take turns, however many lanes they have", func(w *world) { w.add(queue.Low, "k/a/1", "k/b/1", "k/c/1", "l/a/1", "l/a/2") }, []string{"k/a/1", "l/a/1", "k/c/1", "l/a/2", "k/b/1"}},
		{"high priority is first", func(w *world) { w.add(queue.Low, "k/a/1"); w.add(queue.High, "k/a/2") }, []string{"k/a/2", "k/a/1"}},
		{"an item is returned once", func(w *world) { w.add(queue.Low, "k/a/1", "k/a/1", "k/a/2") }, []string{"k/a/1", "k/a/2"}},
		{"its priority grows", func(w *world) { w.add(queue.Low, "k/a/1", "k/a/2"); w.add(queue.High, "k/a/2") }, []string{"k/a/2", "k/a/1"}},
		{"and does not shrink", func(w *world) { w.add(queue.High, "k/a/1", "k/a/2"); w.add(queue.Low, "k/a/1") }, []string{"k/a/1", "k/a/2"}},
		{"what is removed is not returned", func(w *world) { w.add(queue.Low, "k/a/1", "k/a/2"); w.Remove(w.items["k/a/1"]) }, []string{"k/a/2"}},
		{"unless it is added again", func(w *world) {
			w.add(queue.Low, "k/a/1", "k/a/2")
			w.Remove(w.items["k/a/1"])
			w.add(queue.High, "k/a/1")
		}, []string{"k/a/1", "k/a/2"}},
		{"what was returned can be added again", func(w *world) {
			w.add(queue.Low, "k/a/1")
			w.all()
			w.add(queue.Low, "k/a/1")
		}, []string{"k/a/1"}},
	} {
		w := newWorld()
		row.do(w)
		if diff := cmp.Diff(row.want, w.all()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reason, diff)
		}
	}
}

// TestLowPriorityHasItsTurn has more of high priority than is ever done.
func TestLowPriorityHasItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range 100 {
		w.add(queue.Low, fmt.Sprintf("k/a/low%d", i))
		w.add(queue.High, fmt.Sprintf("k/a/high%d", i))
	}
	low := 0
	for range 80 {
		if next, _ := w.Next(); strings.Contains(next.name, "low") {
			low++
		}
	}
	if low != 10 {
		t.Errorf("%d of 80 have low priority, want 10", low)
	}
}

// TestReady: who has taken an item wakes the next one, until there are none.
func TestReady(t *testing.T) {
	t.Parallel()
	w := newWorld()
	ready := func() bool {
		select {
		case <-w.Ready():
			return true
		default:
			return false
		}
	}
	if ready() {
		t.Error("the queue is empty, and ready")
	}
	w.add(queue.Low, "k/a/1", "k/a/2")
	for range 3 {
		if !ready() {
			t.Error("there may be items, and the queue is not ready")
		}
		w.Next()
	}
	if ready() {
		t.Error("nothing is left, and the queue is ready")
	}
}
