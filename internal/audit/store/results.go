package store

import (
	"math"
	"strings"
	"time"
	"unique"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// maxMessage and maxField limit the texts of a result, in bytes; maxResults how many results of
	// a policy for one object are kept. The others are counted.
	maxMessage = 1024
	maxField   = 256
	maxResults = 64
)

// A keptResult is a result without its object and policy.
type keptResult struct {
	origin         unique.Handle[origin]
	message, field string
	exemption      *usher.Exemption
}

// An origin is what results of a part of a rule have in common.
type origin struct {
	rule, validation, category string
	status, without            result.Status
	severity                   usher.Severity
	actions                    string
}

// A resultSet is the results of a policy for an object.
type resultSet struct {
	interned

	results []keptResult
	counts  result.Summary
}

func (r *resultSet) size() int64 {
	size := int64(resultSetBytes)
	for i := range r.results {
		size += keptResultBytes + int64(len(r.results[i].message)+len(r.results[i].field))
	}
	return size
}

// hidden is how many results are counted only.
func (r *resultSet) hidden() int {
	return r.counts.Pass + r.counts.Fail + r.counts.Warn + r.counts.Error + r.counts.Skip - len(r.results)
}

// A tally is how often each policy passes and skips.
type tally struct {
	interned

	counts []count
}

type count struct {
	policy     uint32
	pass, skip uint32
}

func (t *tally) size() int64 { return tallyBytes + countBytes*int64(len(t.counts)) }

// An assessment is the judgements of all policies for an object. Policies that are gone are ignored.
type assessment struct {
	interned

	tally   *tally
	results []policyResults
}

// policyResults are those of a policy that has results.
type policyResults struct {
	policy uint32
	set    *resultSet
}

func (a *assessment) size() int64 {
	return assessmentBytes + policyResultsBytes*int64(len(a.results))
}

// A judgement is that of one policy for a projection. The set is nil if there are no results.
type judgement struct {
	count count
	set   *resultSet
}

// A pool interns what projections have: assessments, with what they consist of, and facts. Methods that
// return one return a reference, too. The store guards it.
type pool struct {
	resultSets  interner[*resultSet]
	tallies     interner[*tally]
	assessments interner[*assessment]
	factSets    interner[*factSet]
	hasher      hasher
}

func newPool(m *memory) *pool {
	p := &pool{}
	p.resultSets = newInterner(m, func(*resultSet) {})
	p.tallies = newInterner(m, func(*tally) {})
	p.factSets = newInterner(m, func(*factSet) {})
	p.assessments = newInterner(m, func(a *assessment) {
		p.tallies.release(a.tally)
		for _, r := range a.results {
			p.resultSets.release(r.set)
		}
	})
	return p
}

// resultSet returns the results of a policy; nil if there are none.
func (p *pool) resultSet(owner *namespace, results []result.Result) *resultSet {
	if len(results) == 0 {
		return nil
	}
	var counts result.Summary
	for i := range results {
		counts.Add(results[i].Status, 1)
	}
	results = results[:min(len(results), maxResults)]
	h := p.hasher.reset()
	for i := range results {
		h.result(&results[i])
	}
	for _, n := range [...]int{counts.Pass, counts.Fail, counts.Warn, counts.Error, counts.Skip} {
		h.number(uint64(n))
	}
	key := h.key()
	if known, ok := p.resultSets.lookup(key); ok {
		return known
	}
	set := &resultSet{counts: counts, results: make([]keptResult, len(results))}
	for i := range results {
		set.results[i] = keep(&results[i])
	}
	return p.resultSets.add(key, owner, set)
}

func keep(r *result.Result) keptResult {
	return keptResult{
		origin: unique.Make(origin{
			rule: r.Rule, validation: r.Validation, category: r.Category, status: r.Status, without: r.WithoutExemption, severity: r.Severity, actions: joined(r.Actions),
		}),
		message: clip(r.Message, maxMessage), field: clip(r.Field, maxField), exemption: r.Exemption,
	}
}

func (k *keptResult) result(object result.Identity, policy usher.PolicyRef) result.Result {
	o := k.origin.Value()
	return result.Result{
		Object: object, Policy: policy, Rule: o.rule, Validation: o.validation, Status: o.status, Message: k.message, Field: k.field,
		Category: o.category, Severity: o.severity, Actions: split(o.actions), Exemption: k.exemption,
		WithoutExemption: o.without,
	}
}

func (h *hasher) result(r *result.Result) {
	for _, text := range []string{r.Rule, r.Validation, r.Category, string(r.Status), string(r.WithoutExemption), string(r.Severity), r.Message, r.Field} {
		h.text(text)
	}
	h.number(uint64(len(r.Actions)))
	for _, action := range r.Actions {
		h.text(string(action))
	}
	x := r.Exemption
	if x == nil {
		h.number(0)
		return
	}
	h.number(1)
	for _, text := range []string{x.Kind, x.Namespace, x.Name, x.Reason, x.Owner, x.ExpiresAt.UTC().Format(time.RFC3339Nano)} {
		h.text(text)
	}
}

// assessment returns that of judgements in the order of policies. It takes over their references.
func (p *pool) assessment(owner *namespace, all []judgement) *assessment {
	t := p.tally(owner, all)
	h, n := p.hasher.reset(), 0
	h.interned(&t.interned)
	for _, j := range all {
		if j.set != nil {
			h.number(uint64(j.count.policy))
			h.interned(&j.set.interned)
			n++
		}
	}
	key := h.key()
	if known, ok := p.assessments.lookup(key); ok {
		p.tallies.release(t)
		for _, j := range all {
			p.resultSets.release(j.set)
		}
		return known
	}
	a := &assessment{tally: t, results: make([]policyResults, 0, n)}
	for _, j := range all {
		if j.set != nil {
			a.results = append(a.results, policyResults{j.count.policy, j.set})
		}
	}
	return p.assessments.add(key, owner, a)
}

func (p *pool) tally(owner *namespace, all []judgement) *tally {
	h, n := p.hasher.reset(), 0
	for _, j := range all {
		if j.count.pass > 0 || j.count.skip > 0 {
			h.number(uint64(j.count.policy))
			h.number(uint64(j.count.pass))
			h.number(uint64(j.count.skip))
			n++
		}
	}
	key := h.key()
	if known, ok := p.tallies.lookup(key); ok {
		return known
	}
	t := &tally{counts: make([]count, 0, n)}
	for _, j := range all {
		if j.count.pass > 0 || j.count.skip > 0 {
			t.counts = append(t.counts, j.count)
		}
	}
	return p.tallies.add(key, owner, t)
}

// judgements appends those of policies that are in force and do not judge again, each with a reference
// to its set. All judge again if again is nil.
func (a *assessment) judgements(all []judgement, inForce map[uint32]usher.PolicyRef, again map[uint32]bool) []judgement {
	if a == nil || again == nil {
		return all
	}
	add := func(j judgement) {
		if _, known := inForce[j.count.policy]; !known || again[j.count.policy] {
			return
		}
		if j.set != nil {
			j.set.refs++
		}
		all = append(all, j)
	}
	results := a.results
	addUntil := func(policy uint32) {
		for ; len(results) > 0 && results[0].policy < policy; results = results[1:] {
			add(judgement{count{policy: results[0].policy}, results[0].set})
		}
	}
	for _, c := range a.tally.counts {
		addUntil(c.policy)
		j := judgement{count: c}
		if len(results) > 0 && results[0].policy == c.policy {
			j.set, results = results[0].set, results[1:]
		}
		add(j)
	}
	addUntil(math.MaxUint32)
	return all
}

// failed adds the policies that have an error.
func (a *assessment) failed(policies map[uint32]bool) {
	for _, r := range a.results {
		if r.set.counts.Error > 0 {
			policies[r.policy] = true
		}
	}
}

func joined(actions []usher.Action) string {
	texts := make([]string, len(actions))
	for i, action := range actions {
		texts[i] = string(action)
	}
	return strings.Join(texts, ",")
}

func split(actions string) []usher.Action {
	var all []usher.Action
	for text := range strings.SplitSeq(actions, ",") {
		if text != "" {
			all = append(all, usher.Action(text))
		}
	}
	return all
}

// clip returns a copy of a text, shortened to so many bytes.
func clip(text string, most int) string {
	return strings.Clone(printable.Cut(text, most))
}
