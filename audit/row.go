package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
	"unique"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/audit/result"
)

const (
	// maxMessage and maxField limit the texts of a result, in bytes; maxFindings how many results of
	// a policy about one object are kept. The others are counted.
	maxMessage  = 1024
	maxField    = 256
	maxFindings = 64
)

// A finding is a result without its object and policy.
type finding struct {
	part           unique.Handle[part]
	message, field string
	exemption      *usher.Exemption
}

// A part is what a result says of its policy.
type part struct {
	rule, validation, category string
	status                     result.Status
	severity                   usher.Severity
	actions                    string
}

// A said is the results of a policy about an object. Equal ones are kept once.
type said struct {
	key      digest
	id       uint64
	findings []finding
	counts   result.Summary
	owner    *namespace
	size     int64
	refs     int32
}

// A quiet is how often each policy passes and skips. Equal ones are kept once.
type quiet struct {
	key    digest
	id     uint64
	counts []count
	owner  *namespace
	refs   int32
}

type count struct {
	slot       uint32
	pass, skip uint32
}

// A loud is a policy that has results.
type loud struct {
	slot uint32
	said *said
}

// A row is what all policies say about an object. Equal ones are kept once. Those with slots that are
// gone are ignored.
type row struct {
	key   digest
	quiet *quiet
	loud  []loud
	owner *namespace
	refs  int32
}

// A told is what is said about a projection, by slot.
type told struct {
	count count
	said  *said
}

// hasher makes keys of texts and numbers.
type hasher struct{ data []byte }

func (h *hasher) text(s string) {
	h.number(uint64(len(s)))
	h.data = append(h.data, s...)
}

func (h *hasher) number(n uint64) { h.data = binary.AppendUvarint(h.data, n) }

func (h *hasher) key() digest {
	sum := sha256.Sum256(h.data)
	return digest(sum[:len(digest{})])
}

// internSaid returns what a policy says, nil if that is no results. The caller has a reference.
func (a *Auditor) internSaid(owner *namespace, results []result.Result) *said {
	if len(results) == 0 {
		return nil
	}
	var h hasher
	s := &said{owner: owner, size: saidBytes}
	for i := range results {
		r := &results[i]
		s.counts.Add(r.Status, 1)
		if i >= maxFindings {
			continue
		}
		f := finding{
			part: unique.Make(part{
				rule: r.Rule, validation: r.Validation, category: r.Category, status: r.Status, severity: r.Severity, actions: joined(r.Actions),
			}),
			message: clip(r.Message, maxMessage), field: clip(r.Field, maxField), exemption: r.Exemption,
		}
		p := f.part.Value()
		for _, text := range []string{p.rule, p.validation, p.category, string(p.status), string(p.severity), p.actions, f.message, f.field} {
			h.text(text)
		}
		h.exemption(f.exemption)
		s.findings = append(s.findings, f)
		s.size += findingBytes + int64(len(f.message)+len(f.field))
	}
	for _, status := range result.Statuses() {
		h.number(uint64(number(s.counts, status)))
	}
	s.key = h.key()
	if known := a.saids[s.key]; known != nil {
		known.refs++
		return known
	}
	a.lastID++
	s.id, s.refs, s.findings = a.lastID, 1, slices.Clip(s.findings)
	a.saids[s.key] = s
	a.hold(owner, s.size)
	return s
}

func (h *hasher) exemption(x *usher.Exemption) {
	if x == nil {
		h.number(0)
		return
	}
	h.number(1)
	for _, text := range []string{x.Kind, x.Namespace, x.Name, x.Reason, x.Owner, x.ExpiresAt.UTC().Format(time.RFC3339Nano)} {
		h.text(text)
	}
}

func (a *Auditor) releaseSaid(s *said) {
	if s == nil {
		return
	}
	if s.refs--; s.refs == 0 {
		delete(a.saids, s.key)
		a.unhold(s.owner, s.size)
	}
}

// internRow returns the row of what is said, in the order of slots, which takes over the references.
func (a *Auditor) internRow(owner *namespace, all []told) *row {
	r := &row{quiet: a.internQuiet(owner, all), owner: owner}
	var h hasher
	h.number(r.quiet.id)
	for _, t := range all {
		if t.said != nil {
			r.loud = append(r.loud, loud{t.count.slot, t.said})
			h.number(uint64(t.count.slot))
			h.number(t.said.id)
		}
	}
	r.key = h.key()
	if known := a.rows[r.key]; known != nil {
		known.refs++
		a.releaseQuiet(r.quiet)
		for _, l := range r.loud {
			a.releaseSaid(l.said)
		}
		return known
	}
	r.refs, r.loud = 1, slices.Clip(r.loud)
	a.rows[r.key] = r
	a.hold(owner, r.size())
	return r
}

func (r *row) size() int64 { return rowBytes + loudBytes*int64(len(r.loud)) }

func (a *Auditor) releaseRow(r *row) {
	if r == nil {
		return
	}
	if r.refs--; r.refs > 0 {
		return
	}
	delete(a.rows, r.key)
	a.releaseQuiet(r.quiet)
	for _, l := range r.loud {
		a.releaseSaid(l.said)
	}
	a.unhold(r.owner, r.size())
}

func (a *Auditor) internQuiet(owner *namespace, all []told) *quiet {
	var h hasher
	q := &quiet{owner: owner}
	for _, t := range all {
		if t.count.pass == 0 && t.count.skip == 0 {
			continue
		}
		q.counts = append(q.counts, t.count)
		h.number(uint64(t.count.slot))
		h.number(uint64(t.count.pass))
		h.number(uint64(t.count.skip))
	}
	q.key = h.key()
	if known := a.quiets[q.key]; known != nil {
		known.refs++
		return known
	}
	a.lastID++
	q.id, q.refs, q.counts = a.lastID, 1, slices.Clip(q.counts)
	a.quiets[q.key] = q
	a.hold(owner, q.size())
	return q
}

func (q *quiet) size() int64 { return quietBytes + countBytes*int64(len(q.counts)) }

func (a *Auditor) releaseQuiet(q *quiet) {
	if q.refs--; q.refs == 0 {
		delete(a.quiets, q.key)
		a.unhold(q.owner, q.size())
	}
}

// told returns what a row says for the slots that are in force and not among those that were judged
// again, with a reference to each.
func (r *row) told(slots map[uint32]usher.PolicyRef, again map[uint32]bool) map[uint32]told {
	all := map[uint32]told{}
	if r == nil {
		return all
	}
	stays := func(slot uint32) bool {
		_, known := slots[slot]
		return known && !again[slot]
	}
	for _, c := range r.quiet.counts {
		if stays(c.slot) {
			all[c.slot] = told{count: c}
		}
	}
	for _, l := range r.loud {
		if !stays(l.slot) {
			continue
		}
		t := all[l.slot]
		t.count.slot, t.said = l.slot, l.said
		l.said.refs++
		all[l.slot] = t
	}
	return all
}

// fails returns the slots that have an error.
func (r *row) fails(slots map[uint32]bool) {
	if r == nil {
		return
	}
	for _, l := range r.loud {
		if l.said.counts.Error > 0 {
			slots[l.slot] = true
		}
	}
}

// number is how many results with a status a summary counts.
func number(s result.Summary, of result.Status) int {
	return map[result.Status]int{result.Pass: s.Pass, result.Fail: s.Fail, result.Warn: s.Warn, result.Error: s.Error, result.Skip: s.Skip}[of]
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
	if len(text) <= most {
		return strings.Clone(text)
	}
	const more = "…"
	end := most - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
