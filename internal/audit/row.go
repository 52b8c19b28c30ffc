package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"
	"unique"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
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
	key    string
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
	key   string
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
	var counts result.Summary
	var h hasher
	for i := range results {
		counts.Add(results[i].Status, 1)
		if i < maxFindings {
			h.result(&results[i])
		}
	}
	for _, n := range []int{counts.Pass, counts.Fail, counts.Warn, counts.Error, counts.Skip} {
		h.number(uint64(n))
	}
	key := h.key()
	if known := a.saids[key]; known != nil {
		known.refs++
		return known
	}
	a.lastID++
	s := &said{key: key, id: a.lastID, counts: counts, owner: owner, size: saidBytes, refs: 1}
	s.findings = make([]finding, 0, min(len(results), maxFindings))
	for i := range results[:min(len(results), maxFindings)] {
		f := findingOf(&results[i])
		s.findings = append(s.findings, f)
		s.size += findingBytes + int64(len(f.message)+len(f.field))
	}
	a.saids[key] = s
	a.hold(owner, s.size)
	return s
}

func findingOf(r *result.Result) finding {
	return finding{
		part: unique.Make(part{
			rule: r.Rule, validation: r.Validation, category: r.Category, status: r.Status, severity: r.Severity, actions: joined(r.Actions),
		}),
		message: clip(r.Message, maxMessage), field: clip(r.Field, maxField), exemption: r.Exemption,
	}
}

func (h *hasher) result(r *result.Result) {
	for _, text := range []string{r.Rule, r.Validation, r.Category, string(r.Status), string(r.Severity), r.Message, r.Field} {
		h.text(text)
	}
	h.number(uint64(len(r.Actions)))
	for _, action := range r.Actions {
		h.text(string(action))
	}
	h.exemption(r.Exemption)
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
	q := a.internQuiet(owner, all)
	h := hasher{a.scratch[:0]}
	h.number(q.id)
	louds := 0
	for _, t := range all {
		if t.said != nil {
			h.number(uint64(t.count.slot))
			h.number(t.said.id)
			louds++
		}
	}
	a.scratch = h.data
	if known := a.rows[string(h.data)]; known != nil {
		known.refs++
		a.releaseQuiet(q)
		for _, t := range all {
			a.releaseSaid(t.said)
		}
		return known
	}
	r := &row{key: string(h.data), quiet: q, loud: make([]loud, 0, louds), owner: owner, refs: 1}
	for _, t := range all {
		if t.said != nil {
			r.loud = append(r.loud, loud{t.count.slot, t.said})
		}
	}
	a.rows[r.key] = r
	a.hold(owner, r.size())
	return r
}

func (r *row) size() int64 { return rowBytes + loudBytes*int64(len(r.loud)) + int64(len(r.key)) }

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
	h := hasher{a.scratch[:0]}
	counts := 0
	for _, t := range all {
		if t.count.pass > 0 || t.count.skip > 0 {
			h.number(uint64(t.count.slot))
			h.number(uint64(t.count.pass))
			h.number(uint64(t.count.skip))
			counts++
		}
	}
	a.scratch = h.data
	if known := a.quiets[string(h.data)]; known != nil {
		known.refs++
		return known
	}
	a.lastID++
	q := &quiet{key: string(h.data), id: a.lastID, counts: make([]count, 0, counts), owner: owner, refs: 1}
	for _, t := range all {
		if t.count.pass > 0 || t.count.skip > 0 {
			q.counts = append(q.counts, t.count)
		}
	}
	a.quiets[q.key] = q
	a.hold(owner, q.size())
	return q
}

func (q *quiet) size() int64 { return quietBytes + countBytes*int64(len(q.counts)) + int64(len(q.key)) }

func (a *Auditor) releaseQuiet(q *quiet) {
	if q.refs--; q.refs == 0 {
		delete(a.quiets, q.key)
		a.unhold(q.owner, q.size())
	}
}

// told appends what a row says for the slots that are in force and are not judged again, with a
// reference to each. All are judged again if again is nil.
func (r *row) told(all []told, slots map[uint32]usher.PolicyRef, again map[uint32]bool) []told {
	if r == nil || again == nil {
		return all
	}
	stays := func(slot uint32) bool {
		_, known := slots[slot]
		return known && !again[slot]
	}
	louds := r.loud
	add := func(until uint32) {
		for ; len(louds) > 0 && louds[0].slot < until; louds = louds[1:] {
			if stays(louds[0].slot) {
				louds[0].said.refs++
				all = append(all, told{count{slot: louds[0].slot}, louds[0].said})
			}
		}
	}
	for _, c := range r.quiet.counts {
		add(c.slot)
		t := told{count: c}
		if len(louds) > 0 && louds[0].slot == c.slot {
			t.said, louds = louds[0].said, louds[1:]
		}
		if stays(c.slot) {
			if t.said != nil {
				t.said.refs++
			}
			all = append(all, t)
		}
	}
	add(math.MaxUint32)
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
