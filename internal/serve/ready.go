package serve

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/live"
)

// health answers that the process runs.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// ready answers whether requests should be sent here: policies are loaded and the server
// is not about to end. Problems with policies do not make it unready, since the last
// good version of each is in force; with ?verbose they are listed.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	status := s.live.Status()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var b strings.Builder
	code := http.StatusOK
	switch {
	case s.drain.begun():
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: shutting down\n")
	case status.Generation == 0:
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: " + live.ErrNotLoaded.Error() + "\n")
	default:
		b.WriteString("ok\n")
	}
	if r.URL.Query().Has("verbose") {
		describe(&b, status)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, b.String())
}

// describe writes a status for people.
func describe(b *strings.Builder, status live.Status) {
	if status.Generation == 0 {
		return
	}
	fmt.Fprintf(b, "policies: generation %d, since %s\n", status.Generation, status.Since.Format(time.RFC3339))
	for _, kind := range slices.Sorted(maps.Keys(status.Policies)) {
		fmt.Fprintf(b, "  %s: %d\n", kind, status.Policies[kind])
	}
	fmt.Fprintf(b, "rules: %d\n", status.Rules)
	fmt.Fprintf(b, "problems: %d\n", len(status.Problems))
	for _, problem := range status.Problems {
		fmt.Fprintf(b, "  %s\n", problem)
	}
	if len(status.OnLastGood) > 0 {
		b.WriteString("enforced in their last good version:\n")
		for _, policy := range status.OnLastGood {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
	if len(status.NotEnforced) > 0 {
		b.WriteString("not enforced, since they never compiled:\n")
		for _, policy := range status.NotEnforced {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
}
