package deadline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/deadline"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		reason string
		parent context.Context
		at     time.Time
		want   error
	}{
		{"its time is up", t.Context(), time.Now().Add(-time.Second), context.DeadlineExceeded},
		{"its parent has ended", ended, time.Now().Add(time.Hour), context.Canceled},
		{"neither", t.Context(), time.Now().Add(time.Hour), nil},
	} {
		for _, asked := range []string{"Err", "Done"} {
			t.Run(row.reason+", "+asked, func(t *testing.T) {
				t.Parallel()
				d := &deadline.Context{Context: row.parent, At: row.at}
				defer d.Release()
				if asked == "Done" {
					select {
					case <-d.Done():
						if row.want == nil {
							t.Fatal("it is done")
						}
					default:
						if row.want != nil {
							t.Fatal("it is not done")
						}
					}
				}
				if err := d.Err(); !errors.Is(err, row.want) {
					t.Errorf("error %v, want %v", err, row.want)
				}
			})
		}
	}
}

// Who waits is woken by the deadline, by the parent and by the release.
func TestWakes(t *testing.T) {
	t.Parallel()
	far := time.Now().Add(time.Hour)
	for _, row := range []struct {
		reason string
		at     time.Time
		end    func(d *deadline.Context, cancel func())
		want   error
	}{
		{"the deadline", time.Now().Add(10 * time.Millisecond), func(*deadline.Context, func()) {}, context.DeadlineExceeded},
		{"the parent", far, func(_ *deadline.Context, cancel func()) { cancel() }, context.Canceled},
		{"the release", far, func(d *deadline.Context, _ func()) { d.Release() }, context.Canceled},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			parent, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := &deadline.Context{Context: parent, At: row.at}
			defer d.Release()
			done := d.Done()
			row.end(d, cancel)
			<-done
			if err := d.Err(); !errors.Is(err, row.want) {
				t.Errorf("error %v, want %v", err, row.want)
			}
			child, cancelChild := context.WithCancel(d)
			defer cancelChild()
			if child.Err() == nil {
				t.Error("a context made of it goes on")
			}
		})
	}
}

func TestDeadlineIsTheEarlier(t *testing.T) {
	t.Parallel()
	early, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	for _, row := range []struct{ parent, own time.Time }{{early, late}, {late, early}} {
		parent, cancel := context.WithDeadline(t.Context(), row.parent)
		defer cancel()
		d := &deadline.Context{Context: parent, At: row.own}
		if at, ok := d.Deadline(); !ok || !at.Equal(early) {
			t.Errorf("deadline %v, want %v", at, early)
		}
	}
}

// Many may wait, and each is woken.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	d := &deadline.Context{Context: t.Context(), At: time.Now().Add(time.Hour)}
	woken := make(chan struct{})
	for range 8 {
		go func() {
			<-d.Done()
			woken <- struct{}{}
		}()
	}
	// A timer that somebody has lost is not released: all must have the same one.
	<-started(d)
	d.Release()
	for range 8 {
		<-woken
	}
}

// started returns a channel that is closed once d has a timer.
func started(d *deadline.Context) <-chan struct{} {
	begun := make(chan struct{})
	go func() {
		d.Done()
		close(begun)
	}()
	return begun
}

// This is why there is such a context at all: a decision makes one for each rule.
func BenchmarkContext(b *testing.B) {
	parent := b.Context()
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := &deadline.Context{Context: parent, At: time.Now().Add(time.Second)}
			if d.Err() != nil {
				b.Fatal(d.Err())
			}
			d.Release()
		}
	})
	b.Run("standard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(parent, time.Second)
			if ctx.Err() != nil {
				b.Fatal(ctx.Err())
			}
			cancel()
		}
	})
}
