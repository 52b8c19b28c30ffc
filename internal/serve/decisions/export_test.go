package decisions

import (
	"net/http"
	"time"

	"github.com/usher-dev/usher/internal/observe/recent"
)

// NewTimed serves the decisions of a ring to readers that take no longer than the timeout.
func NewTimed(ring *recent.Ring, timeout time.Duration) http.Handler {
	a := New(ring, "DecisionList")
	a.writeTimeout = timeout
	return a
}
