package live

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
)

// defaultLast is how many past decisions a stream begins with.
const defaultLast = 100

// A Decision is one of a replica.
type Decision struct {
	Replica string `json:"replica"`
	*recent.Decision

	// Explain is the line that explains it, and Exempt the one that exempts the object; empty if there is none.
	Explain string `json:"explain"`
	Exempt  string `json:"exempt"`
}

// decisions follows the decisions of all replicas.
func (l *Live) decisions(ctx context.Context, query url.Values, send console.Send) error {
	of, err := decisionsOf(query)
	if err != nil {
		return err
	}
	all, gap := l.reached(ctx)
	if gap != nil {
		return send("gap", gap)
	}
	l.mu.Lock()
	set := l.set
	l.mu.Unlock()
	err = of.Follow(ctx, set, all, func(i served.Item) error { return sendItem(send, &i) })
	if final(err) {
		text, run := err.Error(), "usher watch"
		if of.Namespace == "" {
			run += " -n NAMESPACE"
		} else {
			run = "kubectl auth can-i watch " + of.Resource() + ".usher.dev -n " + of.Namespace
		}
		return send("gap", &Gap{"decisions", printable.Line(text), run})
	}
	return err
}

func final(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

func sendItem(send console.Send, i *served.Item) error {
	switch {
	case i.Current:
		return send("current", map[string]int{"replicas": i.Replicas})
	case i.Notice != "":
		return send("notice", map[string]any{"replica": i.Replica, "text": printable.Line(i.Notice), "connected": !i.Away})
	case i.Decision == nil:
		return send("lost", map[string]any{"replica": i.Replica, "lost": i.Lost})
	}
	return send("decision", Decision{i.Replica, i.Decision, served.ExplainLine(i.Decision), served.ExemptLine(i.Decision)})
}

// decisionsOf reads what to follow.
func decisionsOf(query url.Values) (*served.Decisions, error) {
	of := &served.Decisions{Namespace: query.Get("namespace"), Last: defaultLast, Candidates: query.Get("candidates") == "true"}
	if err := checkNamespace(of.Namespace); err != nil {
		return nil, err
	}
	var err error
	if of.Filter, err = recent.ParseFilter(query); err != nil {
		return nil, &console.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	if of.Filter.Since > 0 {
		of.Last = recent.Size
	}
	if text := query.Get("last"); text != "" {
		if of.Last, err = strconv.Atoi(text); err != nil || of.Last < 0 || of.Last > recent.Size {
			return nil, fmt.Errorf("last: expected a number from 0 to %d", recent.Size)
		}
	}
	return of, nil
}
