// Package recent keeps the last decisions in memory, and has subscribers follow them.
//
// A [Ring] never makes a decision wait: writers take no locks, and readers that are too slow lose the
// oldest decisions and learn how many. It keeps names and never values: no messages, no errors, no
// objects. What it takes of memory is bounded, whatever requests and policies are called.
package recent

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
)

// A Decision is what is kept of one decision. It is immutable.
type Decision struct {
	// Sequence counts the decisions of a process from 0.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	Request

	// Verdict is allow, deny, noOpinion, or error if there is no decision.
	Verdict string `json:"verdict"`
	// Code is the HTTP status of a denial; 500 if a rule failed.
	Code int32 `json:"code,omitempty"`
	// TookSeconds is how long the decision took.
	TookSeconds float64 `json:"tookSeconds"`
	Changed     bool    `json:"changed,omitempty"`
	Warned      bool    `json:"warned,omitempty"`
	// Failed says that a rule, or a part of one, has no result.
	Failed bool `json:"failed,omitempty"`
	// Rules are those that made a difference, in evaluation order, and Omitted how many more there
	// are.
	Rules   []Rule `json:"rules,omitempty"`
	Omitted int    `json:"omitted,omitempty"`
	// Slowest is the rule that took the longest, whether or not it made a difference; nil if none took [SlowRule].
	Slowest *SlowestRule `json:"slowest,omitempty"`
	// Candidate is the policy candidate that would decide so, and Differences are how that differs from the
	// policies in force, the worst first. Decisions that were made have neither.
	Candidate   *usher.PolicyRef `json:"candidate,omitempty"`
	Differences []string         `json:"differences,omitempty"`

	line atomic.Pointer[[]byte]
}

// A Request is what is kept of the request that was decided.
type Request struct {
	UID   string `json:"uid,omitempty"`
	Phase string `json:"phase"`
	// Operation is the operation of a write, or the verb of a request to authorize.
	Operation string `json:"operation"`
	// APIVersion and Kind are those of the object; requests to authorize have neither.
	APIVersion  string `json:"apiVersion,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is that of a request to authorize that is not for a resource.
	Path   string `json:"path,omitempty"`
	User   string `json:"user"`
	DryRun bool   `json:"dryRun,omitempty"`
}

// JSON returns the decision as one line of JSON, for all readers the same one.
func (d *Decision) JSON() ([]byte, error) {
	if line := d.line.Load(); line != nil {
		return *line, nil
	}
	line, err := json.Marshal(d)
	if err == nil {
		d.line.Store(&line)
	}
	return line, err
}

// SlowRule is how long a rule takes at least that is named because of it.
const SlowRule = 20 * time.Millisecond

// A SlowestRule is the rule that took the longest of a decision.
type SlowestRule struct {
	Policy      usher.PolicyRef `json:"policy"`
	Rule        string          `json:"rule"`
	TookSeconds float64         `json:"tookSeconds"`
}

// A Rule is what one rule did.
type Rule struct {
	Policy usher.PolicyRef `json:"policy"`
	// Written says that Policy is the one that is being written, and that policy admission says this about it.
	Written bool          `json:"written,omitempty"`
	Rule    string        `json:"rule"`
	Outcome usher.Outcome `json:"outcome"`
	// Ignored says that the rule failed and the request went on.
	Ignored bool `json:"ignored,omitempty"`
	// Warned and Audited say that a rule that passed warned of something, or said something for the audit log.
	Warned  bool `json:"warned,omitempty"`
	Audited bool `json:"audited,omitempty"`
	// FailedAt are the places that have no result: validations, or the rule if it is none of the first few of them.
	FailedAt []string `json:"failedAt,omitempty"`
	// Validations are the places of those that did not hold, with the names that the policy gives them, and Exemptions the exemptions that
	// applied, in the form of [usher.PolicyRef.String]; the first few of each.
	Validations []string `json:"validations,omitempty"`
	Exemptions  []string `json:"exemptions,omitempty"`
}

// decision returns the decision for readers.
func (k *kept) decision() *Decision {
	text := func(i int) string { return string(k.field(i)) }
	d := &Decision{
		Sequence: k.sequence, Time: time.Unix(0, k.at).UTC(),
		Request: Request{
			UID: text(uid), Phase: phases[k.phase], Operation: text(operation),
			APIVersion: text(version), Kind: text(kind), Resource: text(resource), Subresource: text(subresource), Namespace: text(namespace), Name: text(name),
			Path: text(path), User: text(userName), DryRun: k.flags&dryRun != 0,
		},
		Verdict: verdicts[k.verdict], Code: int32(k.code),
		TookSeconds: time.Duration(k.took).Seconds(), Changed: k.flags&changed != 0, Warned: k.flags&warned != 0,
		Failed: k.flags&failed != 0, Omitted: int(k.omitted),
	}
	if group := text(group); group != "" {
		d.APIVersion = group + "/" + d.APIVersion
	}
	if s := k.slowest; s != nil {
		ref := s.rule.Value()
		d.Slowest = &SlowestRule{Policy: ref.policy, Rule: ref.rule, TookSeconds: s.took.Seconds()}
	}
	rules := k.rules
	if k.differences != 0 {
		of := rules[0].rule.Value().policy
		d.Candidate, rules = &of, rules[1:]
		for i, kind := range differences {
			if k.differences&(1<<i) != 0 {
				d.Differences = append(d.Differences, kind)
			}
		}
	}
	names := k.names
	take := func(n uint8) (all []string) {
		for _, handle := range names[:n] {
			all = append(all, handle.Value())
		}
		names = names[n:]
		return all
	}
	for _, r := range rules {
		ref := r.rule.Value()
		one := Rule{
			Policy: ref.policy, Rule: ref.rule, Outcome: usher.Outcome(outcomes[r.outcome]),
			Written: r.flags&written != 0, Ignored: r.flags&ignored != 0, Warned: r.flags&warned != 0, Audited: r.flags&audited != 0,
			Validations: take(r.validations), Exemptions: take(r.exemptions),
		}
		for i, place := range one.Validations {
			if r.failed&(1<<i) != 0 {
				one.FailedAt = append(one.FailedAt, place)
			}
		}
		if r.flags&failed != 0 && one.FailedAt == nil {
			one.FailedAt = []string{one.Rule}
		}
		d.Rules = append(d.Rules, one)
	}
	return d
}

// Wrap returns a decider that decides as d does and adds each decision to the ring, except requests
// to authorize about which no policy says anything: these are most of all requests. It returns d if
// the ring is nil.
func Wrap(d usher.Decider, to *Ring) usher.Decider {
	if to == nil {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		start := time.Now()
		decision, err := d.Decide(ctx, r)
		to.Add(r, &decision, err, start)
		return decision, err
	})
}
