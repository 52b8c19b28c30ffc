package served

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/observe/recent"
)

const (
	// silence is how long a stream may have nothing to say, not even that there is nothing new, which
	// replicas say every 15 s.
	silence = 45 * time.Second
	// longestEvent limits an event, in bytes.
	longestEvent = 1 << 20
)

// A follower follows one replica, over any number of connections.
type follower struct {
	of      *Decisions
	replica *replica.Replica
	items   chan<- Item
	// last is how many past decisions it begins with, and since how old they are at most, 0 for any age.
	last  int
	since time.Duration

	// seen is the id to resume from, and latest the time of the last decision.
	seen   string
	latest time.Time
	// skip is the time up to which decisions are known: the process has been replaced.
	skip    time.Time
	current bool
}

// run follows the replica until ctx is done, or its answer is final.
func (f *follower) run(ctx context.Context) {
	lost := false
	for tries := 0; ; tries++ {
		began := time.Now()
		served, err := f.connect(ctx, func() {
			if lost {
				f.tell(ctx, Item{Notice: "connected again"})
			}
			lost, tries = false, 0
		})
		switch {
		case ctx.Err() != nil:
			return
		case final(err):
			f.tell(ctx, Item{err: f.of.Explained(f.replica, "watch", err)})
			return
		case served && errors.Is(err, io.EOF) && time.Since(began) > time.Second:
			// Streams end from time to time, so that rights are checked again.
			continue
		case !lost:
			lost = true
			notice := fmt.Sprintf("lost: %v; trying again", err)
			if hint := replica.Hint(err, "watch", f.of.Resource(), f.of.Namespace); hint != "" {
				notice += "; " + hint
			}
			f.tell(ctx, Item{Notice: notice, Away: true})
			f.caughtUp(ctx)
		}
		if !pause(ctx, tries) {
			return
		}
	}
}

// pause waits before another try. It is false if ctx is done before.
func pause(ctx context.Context, tries int) bool {
	longest := min(time.Second<<min(tries, 5), 30*time.Second)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(longest/2 + rand.N(longest/2)):
		return true
	}
}

// final reports whether an error stays when a request is repeated.
func final(err error) bool {
	_, noToken := errors.AsType[*replica.NoToken](err)
	return noToken || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

func (f *follower) tell(ctx context.Context, i Item) {
	i.Replica, i.due = f.replica.Name, time.Now()
	select {
	case f.items <- i:
	case <-ctx.Done():
	}
}

// caughtUp says, once, that there is nothing more of the past.
func (f *follower) caughtUp(ctx context.Context) {
	if !f.current {
		f.current = true
		f.tell(ctx, Item{Current: true})
	}
}

// connect reads one stream to its end. It reports whether there was one.
func (f *follower) connect(ctx context.Context, connected func()) (served bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query, header := f.of.query(), http.Header{}
	query.Set("watch", "true")
	query.Set("last", strconv.Itoa(f.last))
	if f.seen != "" {
		header["Last-Event-Id"] = []string{f.seen}
		// If the process is another one by now, all that it has is new.
		query.Set("last", strconv.Itoa(recent.Size))
	}
	if f.seen != "" || f.since == 0 {
		// Nothing that has not been shown is too old.
		query.Del("since")
	}
	response, err := f.replica.Get(ctx, replica.Path(f.of.Namespace, f.of.Resource()), query, header)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	connected()
	silent := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it has said nothing for %s", silence)) })
	defer silent.Stop()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, longestEvent)
	var e event
	for lines.Scan() {
		silent.Reset(silence)
		if !e.add(lines.Bytes()) {
			continue
		}
		if err := f.take(ctx, &e); err != nil {
			return true, err
		}
		e = event{}
	}
	if err := context.Cause(ctx); err != nil {
		return true, err
	}
	return true, cmp.Or(lines.Err(), io.EOF)
}

// An event is a server-sent event.
type event struct {
	id, kind string
	data     []byte
}

// add adds a line, and reports whether the event is complete.
func (e *event) add(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(": "))
	switch string(name) {
	case "id":
		e.id = string(value)
	case "event":
		e.kind = string(value)
	case "data":
		e.data = bytes.Clone(value)
	}
	return len(line) == 0
}

// take passes on an event.
func (f *follower) take(ctx context.Context, e *event) error {
	if e.id != "" {
		if process(f.seen) != process(e.id) && f.seen != "" {
			f.tell(ctx, Item{Notice: "restarted: decisions that were not shown before are gone"})
			f.skip = f.latest
		}
		f.seen = e.id
	}
	var data struct {
		Lost   uint64    `json:"lost"`
		Reason string    `json:"reason"`
		Oldest time.Time `json:"oldest"`
	}
	switch e.kind {
	case "decision":
		d := &recent.Decision{}
		if err := json.Unmarshal(e.data, d); err != nil {
			return fmt.Errorf("read decision: %w", err)
		}
		if d.Time.After(f.skip) {
			f.latest = d.Time
			f.tell(ctx, Item{Decision: d})
		}
		return nil
	case "lost", "end", "current":
		if err := json.Unmarshal(e.data, &data); err != nil {
			return fmt.Errorf("read %s: %w", e.kind, err)
		}
	}
	switch e.kind {
	case "current":
		reach := f.of.Reach(data.Oldest, time.Now())
		switch {
		case f.current:
		case f.since > 0:
			f.tell(ctx, Item{Notice: reach})
		case f.latest.IsZero() && f.last > 0:
			f.tell(ctx, Item{Notice: "nothing yet: " + reach})
		}
		f.caughtUp(ctx)
	case "lost":
		f.tell(ctx, Item{Lost: data.Lost})
	case "end":
		return errors.New(data.Reason)
	}
	return nil
}

// process is the part of an id that names the process.
func process(id string) string {
	name, _, _ := strings.Cut(id, "-")
	return name
}
