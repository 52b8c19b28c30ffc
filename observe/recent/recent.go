// Package recent keeps the last decisions in memory, and has subscribers follow them.
//
// A [Ring] never makes a decision wait: writers take no locks, and readers that are too slow lose the
// oldest decisions and learn how many. It keeps names and never values: no messages, no errors, no
// objects.
package recent

import (
	"context"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
)

// mostRules limits the rules of one decision.
const mostRules = 16

// A Decision is what is kept of one decision. It is immutable.
type Decision struct {
	// Sequence counts the decisions of a process from 0.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	UID      string    `json:"uid,omitempty"`
	Phase    string    `json:"phase"`
	// Operation is the operation of a write, or the verb of a request to authorize.
	Operation string `json:"operation"`
	// APIVersion and Kind are those of the object. A request to authorize has Resource.
	APIVersion  string `json:"apiVersion,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	User        string `json:"user"`
	DryRun      bool   `json:"dryRun,omitempty"`

	Verdict string        `json:"verdict"`
	Code    int32         `json:"code,omitempty"`
	Took    time.Duration `json:"took"`
	Changed bool          `json:"changed,omitempty"`
	Warned  bool          `json:"warned,omitempty"`
	// Rules are those that made a difference, in evaluation order, and Omitted how many more there
	// are.
	Rules   []Rule `json:"rules,omitempty"`
	Omitted int    `json:"omitted,omitempty"`
}

// A Rule is what one rule did.
type Rule struct {
	Policy  usher.PolicyRef `json:"policy"`
	Rule    string          `json:"rule"`
	Outcome usher.Outcome   `json:"outcome"`
	// Ignored says that the rule failed and the request went on.
	Ignored bool `json:"ignored,omitempty"`
	// Validations are the places of those that did not hold, up to a few.
	Validations []string `json:"validations,omitempty"`
	// Exemptions are those that applied.
	Exemptions []usher.PolicyRef `json:"exemptions,omitempty"`
}

// Wrap returns a decider that decides as d does and adds each decision to the ring.
func Wrap(d usher.Decider, to *Ring) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		start := time.Now()
		decision, err := d.Decide(ctx, r)
		to.Add(of(r, &decision, err, start))
		return decision, err
	})
}

// of returns what is kept of a decision. Names are copied: those of requests are parts of their
// bodies.
func of(r *usher.Request, d *usher.Decision, err error, start time.Time) *Decision {
	kept := &Decision{
		Time: start, Took: time.Since(start), Phase: string(r.Phase), Operation: string(r.Operation), DryRun: r.DryRun,
		Verdict: verdict(d, err), Code: d.Code, Changed: len(d.Patch) > 0, Warned: len(d.Warnings) > 0,
	}
	verb := ""
	if r.Access != nil {
		verb = r.Access.Verb
	}
	slash := ""
	if r.Kind.Group != "" {
		slash = "/"
	}
	names := clone(r.UID, r.Kind.Group, slash, r.Kind.Version, r.Kind.Kind, r.Subresource, r.Namespace, r.Name, r.User.Name, verb, r.Resource.Resource)
	kept.UID, kept.APIVersion, kept.Kind, kept.Subresource = names.of(0, 0), names.of(1, 3), names.of(4, 4), names.of(5, 5)
	kept.Namespace, kept.Name, kept.User = names.of(6, 6), names.of(7, 7), names.of(8, 8)
	if r.Access != nil {
		kept.Operation, kept.Resource = names.of(9, 9), names.of(10, 10)
	}
	for i := range d.Findings {
		kept.add(&d.Findings[i])
	}
	return kept
}

// errored is the verdict of a request without a decision.
const errored = "error"

func verdict(d *usher.Decision, err error) string {
	switch {
	case err != nil:
		return errored
	case d.Verdict == usher.NoOpinion:
		return "noOpinion"
	}
	return string(d.Verdict)
}

func (d *Decision) add(f *usher.Finding) {
	quiet := f.Outcome == usher.Passed || f.Outcome == usher.Skipped
	if quiet && len(f.Checks) == 0 || f.Policy == (usher.PolicyRef{}) {
		return
	}
	if len(d.Rules) == mostRules {
		d.Omitted++
		return
	}
	r := Rule{Policy: f.Policy, Rule: f.Rule, Outcome: f.Outcome, Ignored: f.Ignored}
	for i := range f.Checks[:min(len(f.Checks), mostRules)] {
		if name := f.Checks[i].Name; !slices.Contains(r.Validations, name) {
			r.Validations = append(r.Validations, name)
		}
	}
	for i := range f.Exemptions {
		r.Exemptions = append(r.Exemptions, f.Exemptions[i].PolicyRef)
	}
	d.Rules = append(d.Rules, r)
}

// A copied has copies of texts, which share one allocation.
type copied struct {
	all string
	// ends are where each of them ends.
	ends [11]int
}

func clone(texts ...string) (c copied) {
	total := 0
	for i, text := range texts {
		total += len(text)
		c.ends[i] = total
	}
	var b strings.Builder
	b.Grow(total)
	for _, text := range texts {
		b.WriteString(text)
	}
	c.all = b.String()
	return c
}

// of returns the texts from first to last, joined.
func (c *copied) of(first, last int) string {
	start := 0
	if first > 0 {
		start = c.ends[first-1]
	}
	return c.all[start:c.ends[last]]
}
