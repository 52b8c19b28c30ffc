package overrun

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

// A Goroutine does a task that can be left before it ends. Its methods are for the one who called
// [Watch.Go].
type Goroutine struct {
	watch *Watch
	tasks chan func()
	ended chan *Panic
	timer *time.Timer
	// labels have the number, by which the stack is found.
	labels context.Context
	number string

	mu   sync.Mutex
	busy bool
	// left is nil unless nobody waits for the task.
	left *running
}

// A Panic is that of a task, which goes on where somebody waits for the task.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%v\n%s", p.Value, p.Stack) }

// errExited is the panic of a task that has ended its goroutine.
var errExited = errors.New("the task has ended its goroutine")

// label is the label of goroutines in profiles.
const label = "usher-evaluation"

func newGoroutine(w *Watch) *Goroutine {
	g := &Goroutine{
		watch: w, tasks: make(chan func(), 1), ended: make(chan *Panic, 1), timer: time.NewTimer(time.Hour),
		number: strconv.FormatUint(w.numbers.Add(1), 10),
	}
	g.timer.Stop()
	g.labels = pprof.WithLabels(context.Background(), pprof.Labels(label, g.number))
	go g.run()
	return g
}

func (g *Goroutine) run() {
	pprof.SetGoroutineLabels(g.labels)
	for task := range g.tasks {
		if !g.do(task) {
			return
		}
	}
}

// do does a task, and reports whether there may be another one.
func (g *Goroutine) do(task func()) (again bool) {
	done := false
	defer func() {
		var panicked *Panic
		if value := recover(); value != nil {
			panicked = &Panic{value, debug.Stack()}
		} else if !done {
			panicked = &Panic{errExited, nil}
		}
		g.mu.Lock()
		g.busy = false
		left := g.left
		g.mu.Unlock()
		again = done && left == nil
		if left != nil {
			g.watch.end(left)
			return
		}
		g.ended <- panicked
	}()
	task()
	done = true
	return done
}

// Wait waits for the end of the task, and reports whether it has ended: then the goroutine must not be
// used any more. A panic of the task is one of Wait, with a [*Panic].
func (g *Goroutine) Wait(d time.Duration) bool {
	g.timer.Reset(d)
	select {
	case panicked := <-g.ended:
		g.timer.Stop()
		if panicked != nil {
			close(g.tasks)
			panic(panicked)
		}
		g.watch.keep(g)
		return true
	case <-g.timer.C:
		return false
	}
}

// Leave leaves the task, which nobody waits for any more. The goroutine must not be used any more.
func (g *Goroutine) Leave(o Overrun) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.busy {
		close(g.tasks)
		return
	}
	g.left = g.watch.add(o, g.number)
}
