// Package failing records which policies have rules that fail on requests, with the last error, the
// number of failures and an example, but without values of objects.
//
// Users who may write objects can make a rule fail at will. The cost of that is limited: one entry
// per policy, texts that are created at most once a second for each, and nothing for rules that
// work.
package failing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/withhold"
)

const (
	// recoverAfter is how long a rule that works again must not fail to count as recovered.
	recoverAfter = time.Minute
	// forgetAfter is how long a failure is kept if the rule is not evaluated again.
	forgetAfter = time.Hour
	// textEvery is how often the error and the example of a policy are renewed.
	textEvery = time.Second
	// manyFailures is how many have texts of their own, however soon they follow each other.
	manyFailures = 16
	// longestExample limits the length of an example in bytes: clients choose the names in it.
	longestExample = 300
)

// A Tracker records failures. It is safe for concurrent use. Use [New].
type Tracker struct {
	// started is called when a policy begins to fail, or an edited one is evaluated first.
	started func()

	// failing is replaced as a whole, under mu; entries are shared.
	failing atomic.Pointer[map[usher.PolicyRef]*entry]
	mu      sync.Mutex
	current map[usher.PolicyRef]version
}

// A version identifies the version of a policy that is in force.
type version struct {
	uid        types.UID
	generation int64
}

// An entry is a policy that fails, or failed before it was edited.
type entry struct {
	version version

	mu      sync.Mutex
	failure rule.Failure
	texts   time.Time
	// works is when the last failed rule worked again; zero if it has not.
	works time.Time
}

// New returns a tracker without policies. It calls started, if not nil, whenever a policy begins to
// fail, and when a request first meets a version whose predecessor failed.
func New(started func()) *Tracker {
	if started == nil {
		started = func() {}
	}
	t := &Tracker{started: started}
	t.failing.Store(&map[usher.PolicyRef]*entry{})
	return t
}

// Keep sets the policies in force. It drops failures of others. Of those that have another version now, it records when
// a request meets that. It does not record policies from files, which have no UID.
func (t *Tracker) Keep(states []rule.State) {
	current := make(map[usher.PolicyRef]version, len(states))
	for i := range states {
		if s := &states[i]; s.UID != "" && s.InForce() >= 0 {
			current[s.Policy] = version{s.UID, s.InForce()}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = current
	next := map[usher.PolicyRef]*entry{}
	for policy, e := range *t.failing.Load() {
		switch v := current[policy]; {
		case v == e.version:
			next[policy] = e
		case v.uid == e.version.uid:
			next[policy] = awaited(v)
		}
	}
	t.failing.Store(&next)
}

// Await has a policy recorded when a request first meets the version in force.
func (t *Tracker) Await(policy usher.PolicyRef) { t.begin(policy) }

// awaited returns the entry of a version that no request has met.
func awaited(v version) *entry {
	return &entry{version: v, failure: rule.Failure{UID: v.uid, Generation: v.generation}}
}

// drop forgets the policies that work again.
func (t *Tracker) drop(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.failing.Load()
	next := maps.Clone(known)
	maps.DeleteFunc(next, func(_ usher.PolicyRef, e *entry) bool { return e.over(now) })
	if len(next) < len(known) {
		t.failing.Store(&next)
	}
}

// Wrap returns a decider that decides like d, and records which rules fail. Facts that are not read
// in a dry run do not count as failures, nor do rules that were not reached in time.
func (t *Tracker) Wrap(d usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		decision, err := d.Decide(ctx, r)
		secret := false
		for i := range decision.Findings {
			f := &decision.Findings[i]
			secret = secret || f.Confidential
			t.see(r, f, secret)
		}
		return decision, err
	})
}

func (t *Tracker) see(r *usher.Request, f *usher.Finding, secret bool) {
	e := (*t.failing.Load())[f.Policy]
	switch {
	case f.Written:
	case f.Outcome == usher.Failed && r.DryRun && errors.Is(f.Err, fact.ErrDryRun):
	case f.Outcome == usher.Failed && errors.Is(f.Err, rule.ErrUnreached):
	case f.Outcome == usher.Failed, f.Failure() != nil:
		if e == nil {
			e = t.begin(f.Policy)
		}
		if e != nil && e.fail(r, f, secret, time.Now()) {
			t.started()
		}
	case e != nil && f.Outcome != usher.Skipped:
		if e.work(f.Rule, time.Now()) {
			t.started()
		}
	}
}

// begin creates an entry for a policy; nil if it is not in force.
func (t *Tracker) begin(policy usher.PolicyRef) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.failing.Load()
	if e := known[policy]; e != nil {
		return e
	}
	v, ok := t.current[policy]
	if !ok {
		return nil
	}
	next := maps.Clone(known)
	next[policy] = awaited(v)
	t.failing.Store(&next)
	return next[policy]
}

// fail reports whether this is the first failure.
func (e *entry) fail(r *usher.Request, f *usher.Finding, secret bool, now time.Time) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = e.failure.Count == 0; first {
		e.failure = rule.Failure{UID: e.version.uid, Generation: e.version.generation, Since: now}
	}
	e.failure.Count++
	e.failure.Last = now
	part, ignored := part(f)
	if ignored && !first && !e.failure.Ignored && e.works.IsZero() {
		// What refuses requests is told first.
		return first
	}
	e.works = time.Time{}
	if e.failure.Count > manyFailures && now.Sub(e.texts) < textEvery {
		return first
	}
	e.texts, e.failure.Ignored = now, ignored
	e.failure.Rule, e.failure.Part, e.failure.Error, e.failure.Example = f.Rule, part, withhold.Error(r, f.Failure(), secret), example(r)
	return first
}

// part names the part of a rule that failed, such as spec.validations[0] (label), which is empty if that is
// not known, and reports whether that had no effect.
func part(f *usher.Finding) (name string, ignored bool) {
	at := slices.IndexFunc(f.Checks, func(c usher.Check) bool { return c.Failed })
	if at < 0 {
		return "", f.Ignored
	}
	c := &f.Checks[at]
	if name = c.Name; c.Validation != "" {
		name = fmt.Sprintf("%s (%s)", c.Name, c.Validation)
	}
	return name, f.Ignored || len(c.Actions) == 0
}

// work reports whether this is the first request that met the version, and its rules worked.
func (e *entry) work(rule string, now time.Time) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = e.failure.Count == 0 && e.failure.Last.IsZero(); first {
		e.failure.Last = now
	} else if e.failure.Count > 0 && e.failure.Rule == rule && e.works.IsZero() {
		e.works = now
	}
	return first
}

// over reports whether the policy works again, as far as known.
func (e *entry) over(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	silent := now.Sub(e.failure.Last)
	return !e.failure.Last.IsZero() && (silent >= forgetAfter || !e.works.IsZero() && silent >= recoverAfter)
}

// Failures returns the policies that fail, those that have failed for the longest first, and then those that did
// before they were edited. It drops those that work again.
func (t *Tracker) Failures() []rule.Failure {
	if len(*t.failing.Load()) > 0 {
		t.drop(time.Now())
	}
	var failures []rule.Failure
	for _, e := range *t.failing.Load() {
		e.mu.Lock()
		failures = append(failures, e.failure)
		e.mu.Unlock()
	}
	slices.SortFunc(failures, func(a, b rule.Failure) int {
		return cmp.Or(-cmp.Compare(min(a.Count, 1), min(b.Count, 1)), a.Since.Compare(b.Since), cmp.Compare(a.UID, b.UID))
	})
	return failures
}

// Count returns how many policies fail.
func (t *Tracker) Count() int {
	failures := t.Failures()
	if n := slices.IndexFunc(failures, func(f rule.Failure) bool { return f.Count == 0 }); n >= 0 {
		return n
	}
	return len(failures)
}

// example names the object of a request, without its content.
func example(r *usher.Request) string {
	words := []string{string(r.Operation), r.Kind.Kind}
	switch {
	case r.Access != nil && r.Access.NonResource:
		words = []string{r.Access.Verb, "of a URL path"}
	case r.Access != nil:
		words = []string{r.Access.Verb, r.Resource.Resource}
	}
	if r.Subresource != "" {
		words[1] += "/" + r.Subresource
	}
	switch name := r.ObjectName(); {
	case r.Namespace != "" && name != "":
		words = append(words, r.Namespace+"/"+name)
	case r.Namespace != "":
		words = append(words, "in "+r.Namespace)
	case name != "":
		words = append(words, name)
	}
	return printable.Cut(printable.Blank(strings.Join(words, " ")), longestExample)
}
