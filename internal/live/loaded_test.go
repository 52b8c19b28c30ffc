package live_test

import (
	"context"
	"errors"
	"testing"

	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/source"
)

func TestWaitLoaded(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	hands := sourceFunc(func(ctx context.Context, update func(source.Set)) error {
		update(set(label("a", "x", "1")))
		<-ctx.Done()
		return nil
	})
	waits := sourceFunc(func(ctx context.Context, _ func(source.Set)) error {
		<-ctx.Done()
		return nil
	})
	fails := sourceFunc(func(context.Context, func(source.Set)) error { return broken })
	for _, test := range []struct {
		reason string
		// sources run; none if it is nil.
		sources []source.Source
		// ended means that Run is over before, and givenUp that the caller does not wait.
		ended, givenUp bool
		want           error
	}{
		{reason: "policies are there", sources: []source.Source{hands}},
		{reason: "policies are there, and Run has ended", sources: []source.Source{}, ended: true, givenUp: true},
		{reason: "nothing runs, and the caller does not wait", givenUp: true, want: live.ErrNotLoaded},
		{reason: "one of two sources hands over nothing, and the caller does not wait", sources: []source.Source{hands, waits}, givenUp: true, want: context.Canceled},
		{reason: "a source fails", sources: []source.Source{fails}, want: broken},
		{reason: "Run has ended before", sources: []source.Source{waits}, ended: true, want: live.ErrNotLoaded},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			l := live.New(live.Options{})
			running, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			if test.ended {
				stop()
			}
			if test.sources != nil {
				go func() { ended <- l.Run(running, test.sources...) }()
				t.Cleanup(func() { stop(); <-ended })
			}
			if test.ended {
				ended <- <-ended
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.givenUp {
				cancel()
			}
			if err := l.WaitLoaded(ctx); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if _, err := l.Decide(t.Context(), createPod()); (err == nil) != (test.want == nil) {
				t.Errorf("decide: %v", err)
			}
			stop()
		})
	}
}
