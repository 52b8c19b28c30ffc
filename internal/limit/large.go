package limit

import (
	"io"
	"time"
)

// turnTimeout is how long a large request waits for its turn. Then it is decided as if it had it: what holds
// the turn may wait for facts, and nothing is rejected because a request is large.
const turnTimeout = 250 * time.Millisecond

// Turn has a request whose object is large wait while half of the processors decide others like it: small
// ones find the other half. Users take turns, whatever they send. user is who made the request, and the
// turn ends with the response. A body without limits does not wait.
func Turn(r io.Reader, user string) {
	b, ok := r.(*body)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done || b.turn != nil {
		return
	}
	who := caller{address: user}
	if large := b.limiter.large; large.grab(who, 1) || large.take(b.request.Context(), who, 1, turnTimeout) {
		b.turn = func() { large.give(who, 1) }
	}
}
