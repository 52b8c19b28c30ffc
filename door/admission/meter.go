package admission

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/limit"
)

// heavy is the weight of an object, in bytes, from which on decoding it is interrupted when
// the time of the request is over.
const heavy = 256 << 10

// A meter charges a request for the memory that decoding its review takes, as long as there is
// time for that. The zero meter charges nothing.
type meter struct {
	ctx  context.Context
	body io.Reader
	over atomic.Bool
}

// watch returns what a scan of the review tells what it takes, nil for the zero meter.
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

// mind makes decoding a heavy object end with the request's context. Who still has the object
// when the request is over may take the time they like.
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

// end tells that the request is over.
func (m *meter) end() { m.over.Store(true) }
