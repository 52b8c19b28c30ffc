// Package served reads what replicas of Usher serve: decisions, in lists and streams, and results of the audit.
package served

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// Decisions are those that are read: of one namespace, or of all if it is empty.
type Decisions struct {
	Namespace string
	// Filter selects them, at the replicas. Its Since is for those of the past.
	Filter recent.Filter
	// Last is how many of the past there are at most.
	Last int
	// Candidates are decisions of candidates that differ, instead of those that are made.
	Candidates bool
}

// Resource is what is read, of the API of servers.
func (d *Decisions) Resource() string {
	if d.Candidates {
		return delegated.CandidateDecisions
	}
	return delegated.Decisions
}

// query returns the parameters of the filter.
func (d *Decisions) query() url.Values { return d.Filter.Values() }

// Explained adds to an error which replica it is of, and what to do.
func (d *Decisions) Explained(r *replica.Replica, verb string, err error) error {
	if hint := replica.Hint(err, verb, d.Resource(), d.Namespace); hint != "" {
		return fmt.Errorf("%s: %w; %s", r.Name, err, hint)
	}
	return fmt.Errorf("%s: %w", r.Name, err)
}

// Reach says how far back the decisions of a replica go.
func (d *Decisions) Reach(oldest, now time.Time) string {
	if oldest.IsZero() {
		return "it lists no decisions: those from before it started are in its log, if there were any"
	}
	ago := max(now.Sub(oldest), 0).Round(time.Second)
	text := fmt.Sprintf("its decisions go back to %s, %s ago", oldest.UTC().Format(time.RFC3339), ago)
	if ago < d.Filter.Since {
		text += ": older ones are in its log, if there were any"
	}
	return text
}

// An Item is what a replica says: a decision, or that it or some of its decisions are lost.
type Item struct {
	Replica  string
	Decision *recent.Decision
	Lost     uint64
	Notice   string
	// Away says of a notice that the replica is not followed now.
	Away bool
	// Current says that there is nothing more of the past.
	Current bool
	// Replicas is how many are followed.
	Replicas int

	// err ends all.
	err error
	// due is when an item without a decision came, and when one with a decision is passed on: until
	// then an earlier one of another replica may come.
	due time.Time
}

func (i *Item) time() time.Time {
	if i.Decision != nil {
		return i.Decision.Time
	}
	return i.due
}

// Newest returns the last n decisions in the order of time, and what was lost.
func Newest(items []Item, n int) []Item {
	slices.SortStableFunc(items, func(a, b Item) int { return a.time().Compare(b.time()) })
	decisions := 0
	for i := range items {
		if items[i].Decision != nil {
			decisions++
		}
	}
	return slices.DeleteFunc(items, func(i Item) bool {
		if i.Decision == nil {
			return false
		}
		decisions--
		return decisions >= n
	})
}

// A Listed is the last decisions of a replica.
type Listed struct {
	Items  []*recent.Decision `json:"items"`
	Lost   uint64             `json:"lost"`
	Oldest time.Time          `json:"oldest"`
}

// List returns the last decisions of a replica.
func (d *Decisions) List(ctx context.Context, r *replica.Replica) (list Listed, err error) {
	query := d.query()
	query.Set("last", strconv.Itoa(d.Last))
	response, err := r.Get(ctx, replica.Path(d.Namespace, d.Resource()), query, nil)
	if err != nil {
		return list, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return list, fmt.Errorf("read decisions: %w", err)
	}
	return list, nil
}

// ListAll returns the last decisions of all replicas, in the order of time, and, if they are to go back to some time or
// there are none, how far back those of each go.
func (d *Decisions) ListAll(ctx context.Context, all []*replica.Replica) (items, reaches []Item, err error) {
	for _, r := range all {
		listed, err := d.List(ctx, r)
		if err != nil {
			return nil, nil, d.Explained(r, "list", err)
		}
		for _, decision := range listed.Items {
			items = append(items, Item{Replica: r.Name, Decision: decision})
		}
		now := time.Now()
		if listed.Lost > 0 {
			items = append(items, Item{Replica: r.Name, Lost: listed.Lost, due: now})
		}
		reaches = append(reaches, Item{Replica: r.Name, Notice: d.Reach(listed.Oldest, now)})
	}
	if d.Filter.Since == 0 && len(items) > 0 {
		reaches = nil
	}
	return Newest(items, d.Last), reaches, nil
}
