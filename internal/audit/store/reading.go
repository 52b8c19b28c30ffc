package store

import "time"

const (
	// rereadPause is how long a kind is not read once more after it was.
	rereadPause = 30 * time.Second
	// returnPause is the same for objects that were not kept.
	returnPause = 5 * time.Minute
)

// A reading is how far a kind has been read, and when it is read once more.
type reading struct {
	// generation is that of the objects that the current or last full read has had.
	generation uint32
	// active says that a full read goes on, and done that the last one had all objects. selected says that
	// policies have selected the kind since it began.
	active, done, selected bool
	began                  time.Time
	// heard is when the API server last confirmed that all is current.
	heard time.Time
	err   error
	since time.Time
	// requested says that the kind is to be read once more, not before earliest, and asked that somebody
	// was asked to.
	requested, asked bool
	earliest         time.Time
	// returns is when it may be read once more for the objects that are not kept.
	returns time.Time
}

func (r *reading) begin(selected bool, now time.Time) {
	r.generation++
	r.active, r.requested, r.asked = true, false, false
	r.began, r.selected = now, selected
}

func (r *reading) end(done bool, now time.Time) {
	r.active, r.done = false, done
	took := now.Sub(r.began)
	r.earliest, r.returns = now.Add(max(rereadPause, 10*took)), now.Add(max(returnPause, 10*took))
	r.hear(now)
}

// hear notes that the API server has responded. A response while all is read does not mean that all is
// current.
func (r *reading) hear(now time.Time) {
	if !r.active {
		r.heard, r.err, r.since = now, nil, time.Time{}
	}
}

// fail reports whether the error is another one than before.
func (r *reading) fail(err error, now time.Time) bool {
	before := r.err
	if r.err = err; before == nil {
		r.since = now
	}
	return before == nil || before.Error() != err.Error()
}

// request reports whether the kind was not to be read once more before.
func (r *reading) request() bool {
	if r.active || r.requested {
		return false
	}
	r.requested = true
	return true
}

// due reports whether to ask for a full read now, which it does once, or how long that is to wait, if it is
// requested.
func (r *reading) due(now time.Time) (due bool, wait time.Duration) {
	switch {
	case !r.requested || r.asked:
		return false, 0
	case r.earliest.After(now):
		return false, r.earliest.Sub(now)
	}
	r.asked = true
	return true, 0
}
