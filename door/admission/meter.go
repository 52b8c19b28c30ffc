package admission

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/turns"
)

// heavy is the size of an object, in bytes, above which its decoding is interrupted when the
// request times out, and of a review that waits for its turn.
const heavy = 256 << 10

// A meter charges a request for the memory that decoding its review takes, until the request times
// out. The zero meter charges nothing.
type meter struct {
	ctx  context.Context
	body io.Reader
	over atomic.Bool
	// large means that the review waits for its turn.
	large bool
}

// turn waits for the turn of a large review. API servers send the user before objects; if another caller
// does not, it is in the turn of all such callers.
func (m *meter) turn(user string) {
	if m.large && m.ctx != nil {
		m.large = false
		limit.Turn(m.body, turns.OfUser(user))
	}
}

// watch returns what a scan of the review reports its memory to, nil for the zero meter.
func (m *meter) watch() jsontree.Watch {
	if m.ctx == nil {
		return nil
	}
	return func(weight int) error {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		return limit.Pay(m.body, weight)
	}
}

// mind makes the decoding of a heavy object end with the request's context. Decoding that starts
// after the request is over is not limited.
func (m *meter) mind(skipIndex *jsontree.SkipIndex) {
	if m.ctx == nil || skipIndex.Weight() < heavy {
		return
	}
	skipIndex.Interrupt(func() error {
		if m.over.Load() {
			return nil
		}
		return m.ctx.Err()
	})
}

// end marks the request as over.
func (m *meter) end() { m.over.Store(true) }
