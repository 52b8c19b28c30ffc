package audit

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Namespaces returns the namespaces of objects that are audited, sorted. Cluster-scoped objects, and
// kinds that cannot be read, are in the namespace "".
func (a *Auditor) Namespaces() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]bool{}
	for _, k := range a.ring {
		for name := range k.lots {
			all[name] = true
		}
		if k.plan != nil && (k.err != nil || len(k.unjudged) > 0) {
			all[""] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Kinds returns the states of all kinds that policies in force select and that have a sink, sorted.
func (a *Auditor) Kinds() []result.KindState {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []result.KindState
	for _, k := range a.ring {
		if k.plan == nil {
			continue
		}
		all = append(all, result.KindState{
			Kind: k.of, Objects: k.objects, Backlog: k.backlog,
			Complete: k.read && !k.reading && k.backlog == 0 && k.err == nil,
			Heard:    k.heard, Err: k.err, Since: k.since,
			Projections: len(k.all), Bytes: k.bytes, Dropped: k.dropped, Omitted: k.omitted,
		})
	}
	return all
}

// Namespace returns the results about the objects of a namespace that are not passes, by kind, name
// and policy, and the counts of all. Of more results than are listed for a namespace, one says how many
// are not.
func (a *Auditor) Namespace(name string) ([]result.Result, result.Summary) {
	l := listing{namespace: name, most: a.options.Results}
	a.mu.Lock()
	ring := slices.Clone(a.ring)
	a.mu.Unlock()
	for _, k := range ring {
		l.add(a.snapshot(k, name))
	}
	if l.more > 0 {
		l.results = append(l.results, l.truncated())
		l.summary.Error++
	}
	return l.results, l.summary
}

// A snapshot is what is said about the objects of a kind in a namespace at one time.
type snapshot struct {
	kind    result.Kind
	view    *view
	objects []judged
	omitted int
	// unjudged are the rules that do not judge the kind, and err is why it cannot be read: both are
	// results of the cluster.
	unjudged []judge.Unjudged
	err      error
}

type judged struct {
	name string
	uid  types.UID
	row  *row
}

func (a *Auditor) snapshot(k *kind, name string) snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := snapshot{kind: k.of, view: k.view}
	if name == "" && k.plan != nil {
		s.err, s.unjudged = k.err, k.unjudged
	}
	l := k.lots[name]
	if l == nil {
		return s
	}
	s.omitted = len(l.omitted)
	s.objects = make([]judged, 0, len(l.objects))
	for name, o := range l.objects {
		at := place{l.namespace.name, name}
		if shown := o.projection.shown(at); shown != nil {
			s.objects = append(s.objects, judged{name, k.uid(at, o), shown})
		}
	}
	return s
}

// A listing is the results of a namespace.
type listing struct {
	namespace string
	most      int
	results   []result.Result
	summary   result.Summary
	// more counts the results that are not listed.
	more int
}

// add adds what is said about the objects of a kind.
func (l *listing) add(s snapshot) {
	slices.SortFunc(s.objects, func(a, b judged) int { return cmp.Compare(a.name, b.name) })
	quiets := map[*quiet]result.Summary{}
	for i := range s.objects {
		o := &s.objects[i]
		l.summary.Merge(o.row.summary(s.view, quiets))
		l.addRow(&s, o)
	}
	if s.omitted > 0 {
		l.put(omission(s, l.namespace))
		l.summary.Error += s.omitted
	}
	for _, u := range s.unjudged {
		// The objects are counted where they are.
		l.put(result.Result{Object: objectOf(s.kind, "", "", ""), Policy: u.Policy, Rule: u.Rule, Status: result.Skip, Message: u.Reason})
	}
	if s.err != nil {
		for _, ref := range s.view.ordered() {
			l.put(unreadable(s, ref))
			l.summary.Error++
		}
	}
}

func (l *listing) addRow(s *snapshot, o *judged) {
	var cells []loud
	for _, cell := range o.row.loud {
		if _, known := s.view.refs[cell.slot]; known {
			cells = append(cells, cell)
		}
	}
	slices.SortFunc(cells, func(a, b loud) int { return cmp.Compare(s.view.ranks[a.slot], s.view.ranks[b.slot]) })
	object := objectOf(s.kind, l.namespace, o.name, o.uid)
	for _, cell := range cells {
		for i := range cell.said.findings {
			l.put(cell.said.findings[i].result(object, s.view.refs[cell.slot]))
		}
		if hidden := cell.said.hidden(); hidden > 0 {
			l.put(result.Result{
				Object: object, Policy: s.view.refs[cell.slot], Status: result.Error,
				Message: fmt.Sprintf("%d more results of this policy about this object are counted, but not listed", hidden),
			})
		}
	}
}

func (l *listing) put(r result.Result) {
	if len(l.results) >= l.most {
		l.more++
		return
	}
	l.results = append(l.results, r)
}

// truncated is the result about results that are not listed.
func (l *listing) truncated() result.Result {
	r := result.Result{
		Object: result.Object{APIVersion: "v1", Kind: "Namespace", Name: l.namespace}, Status: result.Error,
		Message: fmt.Sprintf("%d more results of namespace %s are counted, but not listed: at most %d are", l.more, l.namespace, l.most),
	}
	if l.namespace == "" {
		r.Object = result.Object{}
		r.Message = fmt.Sprintf("%d more results of cluster-scoped objects are counted, but not listed: at most %d are", l.more, l.most)
	}
	return r
}

func omission(s snapshot, namespace string) result.Result {
	where := "namespace " + namespace
	if namespace == "" {
		where = "the cluster"
	}
	return result.Result{
		Object: objectOf(s.kind, namespace, "", ""), Status: result.Error,
		Message: fmt.Sprintf("%d %s of %s are not audited: the memory of the audit does not suffice, and %s takes most of it",
			s.omitted, s.kind.Resource.GroupResource(), where, where),
	}
}

func unreadable(s snapshot, ref usher.PolicyRef) result.Result {
	return result.Result{
		Object: objectOf(s.kind, "", "", ""), Policy: ref, Status: result.Error,
		Message: clip(fmt.Sprintf("%s cannot be read: %s", s.kind.Resource.GroupResource(), s.err), maxMessage),
	}
}

func objectOf(k result.Kind, namespace, name string, uid types.UID) result.Object {
	return result.Object{APIVersion: k.Resource.GroupVersion().String(), Kind: k.Kind, Namespace: namespace, Name: name, UID: uid}
}

// summary counts what passes and what is skipped.
func (q *quiet) summary(v *view) result.Summary {
	var s result.Summary
	for _, c := range q.counts {
		if _, known := v.refs[c.slot]; known {
			s.Pass += int(c.pass)
			s.Skip += int(c.skip)
		}
	}
	return s
}

// ordered returns the policies in the order of results.
func (v *view) ordered() []usher.PolicyRef {
	all := make([]usher.PolicyRef, len(v.refs))
	for slot, ref := range v.refs {
		all[v.ranks[slot]] = ref
	}
	return all
}

func (f *finding) result(object result.Object, policy usher.PolicyRef) result.Result {
	p := f.part.Value()
	return result.Result{
		Object: object, Policy: policy, Rule: p.rule, Validation: p.validation, Status: p.status, Message: f.message, Field: f.field,
		Category: p.category, Severity: p.severity, Actions: split(p.actions), Exemption: f.exemption,
	}
}

// hidden is how many results are counted only.
func (s *said) hidden() int {
	all := s.counts.Pass + s.counts.Fail + s.counts.Warn + s.counts.Error + s.counts.Skip
	return all - len(s.findings)
}

// uuidLength is the length of the text of a UUID.
const uuidLength = 36

// identify returns a UID in the form in which it is kept.
func (k *kind) identify(at place, uid types.UID) (short [16]byte) {
	text := string(uid)
	if len(text) == uuidLength {
		digits := text[0:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
		if _, err := hex.Decode(short[:], []byte(digits)); err == nil && longUID(short) == uid {
			delete(k.odd, at)
			return short
		}
	}
	if uid != "" {
		k.odd[place{strings.Clone(at.namespace), strings.Clone(at.name)}] = types.UID(strings.Clone(text))
	}
	return [16]byte{}
}

func (k *kind) uid(at place, o object) types.UID {
	if o.uid == [16]byte{} {
		return k.odd[at]
	}
	return longUID(o.uid)
}

func longUID(short [16]byte) types.UID {
	digits := hex.EncodeToString(short[:])
	return types.UID(digits[0:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:])
}
