package verdict

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/usher-dev/usher/conformance/internal/spec"
)

// problemLines bounds what is shown of why a spec failed; its log has everything.
const problemLines = 12

// An Entrant is a server that the specs run against.
type Entrant struct {
	Name, About string
	Standard    Standard
}

// A Report prints the results of one server as they come: one line a spec, and more where
// something is not as it has to be. It is safe for concurrent use.
type Report struct {
	entrant Entrant
	specs   []spec.Spec

	mu          sync.Mutex
	out         io.Writer
	met, passed int
}

// NewReport prints who the server is.
func NewReport(out io.Writer, e Entrant, specs []spec.Spec) *Report {
	fmt.Fprintf(out, "%s: %s\n", e.Name, e.About)
	return &Report{entrant: e, specs: specs, out: out}
}

// Add prints one result. The logs are those of the server.
func (r *Report) Add(result spec.Result, logs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := result.State == spec.Passed
	if passed {
		r.passed++
	}
	line := fmt.Sprintf("%6.1f s  %s", result.Seconds, result.Spec.Name)
	if r.entrant.Standard.Met(result) {
		r.met++
		if passed {
			fmt.Fprintf(r.out, "  pass %s\n", line)
		} else {
			fmt.Fprintf(r.out, "  ok   %s: fails, as it has to (%s)\n", line, result.At)
		}
		return
	}
	if passed {
		fmt.Fprintf(r.out, "  FAIL %s: passes, and must not: it cannot tell this server from a right one\n", line)
	} else {
		fmt.Fprintf(r.out, "  FAIL %s: %s\n       %s, in the spec at %s:\n%s", line, result.State, result.At, result.Spec.Location, indent(result.Problem))
	}
	for _, log := range append([]string{result.Log}, logs...) {
		fmt.Fprintf(r.out, "       see %s\n", log)
	}
}

func indent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > problemLines {
		lines = append(lines[:problemLines], "…")
	}
	return "         " + strings.Join(lines, "\n         ") + "\n"
}

// End prints the sum, and tells whether everything is as it has to be.
func (r *Report) End(took time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := 0
	for _, s := range r.specs {
		if r.entrant.Standard(s) {
			want++
		}
	}
	sum := "as it has to be"
	if wrong := len(r.specs) - r.met; wrong > 0 {
		sum = fmt.Sprintf("WRONG for %d", wrong)
	}
	fmt.Fprintf(r.out, "%s: %d of %d pass, and %d have to: %s (%.0f s)\n\n", r.entrant.Name, r.passed, len(r.specs), want, sum, took.Seconds())
	return r.met == len(r.specs)
}
