package observe

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// repeats are decisions that differ in their times and names of replicas alone, such as those about a
// controller that tries again. The first one is printed, and then how many there are.
type repeats struct {
	key  string
	n    int
	last time.Time
	// due is the number at which it is printed while more of them come.
	due int
}

// add reports whether the decision repeats the one before, and how many there are if that is to be printed now.
func (r *repeats) add(key string, at time.Time) (again bool, n int) {
	if key != r.key {
		*r = repeats{key: key, n: 1, last: at, due: 10}
		return false, 0
	}
	r.n, r.last = r.n+1, at
	if r.n < r.due {
		return true, 0
	}
	r.due *= 10
	return true, r.n
}

// rest returns how many there are, 0 if that has been printed.
func (r *repeats) rest() int {
	if r.n < 2 || r.n*10 == r.due {
		return 0
	}
	return r.n
}

// key returns what decides whether a line repeats another one.
func (p *printer) key(d *recent.Decision) string {
	word, _ := p.verdict(d)
	policies, _ := policiesOf(d)
	return strings.Join([]string{word, d.Operation, what(d), d.User, strings.Join(marks(d), ","), policies}, "\x00")
}

// repeated prints how many decisions there are like the one that was printed.
func (p *printer) repeated(n int) error {
	if n == 0 {
		return nil
	}
	at := p.repeats.last.Local() //nolint:gosmopolitan // It is for the person at this terminal.
	text := fmt.Sprintf("%s the same %d times so far", at.Format("15:04:05.000"), n)
	_, err := io.WriteString(p.streams.Out, cli.Paint(p.palette.Faint, text)+"\n")
	return err
}

// end prints how often the last decision was repeated.
func (p *printer) end() error { return p.repeated(p.repeats.rest()) }
