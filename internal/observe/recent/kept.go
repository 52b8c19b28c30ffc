package recent

import (
	"slices"
	"time"
	"unique"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// mostRules limits the rules of one decision, and mostNames the names that one of them has.
	mostRules = 16
	mostNames = 4
)

// The texts of a request that are kept.
const (
	uid = iota
	operation
	group
	version
	kind
	resource
	subresource
	namespace
	name
	path
	userName
	texts
)

// longest is how much is kept of each text, in bytes: as much as valid ones can have. Senders of
// requests can choose any length.
var longest = [texts]int{
	uid: 64, operation: 63, group: 253, version: 63, kind: 63, resource: 63, subresource: 63, namespace: 63, name: 253, path: 256, userName: 256,
}

// longestName is how much is kept of the names of a policy, of a rule and of its parts.
const longestName = 253

// A kept is a decision as a ring has it: with few allocations, and names of policies in common. It
// is immutable once it is added.
type kept struct {
	sequence uint64
	// at is the start, in nanoseconds since 1970.
	at, took int64
	// text has the texts of the request, ends where each of them ends.
	text  []byte
	rules []keptRule
	// slowest is the rule that took the longest; nil if none was slow.
	slowest *keptSlow
	// names are the validations and exemptions of the rules.
	names   []unique.Handle[string]
	ends    [texts]uint16
	omitted uint16
	code    int16
	phase   uint8
	verdict uint8
	flags   flags
	// differences says how the decision of a candidate differs, by bits. If it does, the first rule names the
	// candidate.
	differences uint8
	// share is where it goes when it is no longer among the last ones of all.
	share uint8
}

// flags are of a decision or of one of its rules.
type flags uint8

const (
	dryRun flags = 1 << iota
	changed
	warned
	failed
	ignored
	audited
	written
)

// A keptRule is what one rule did.
type keptRule struct {
	rule    unique.Handle[ruleRef]
	outcome uint8
	flags   flags
	// validations and exemptions say how many of the names are the rule's, and failed by bits which of the validations
	// have no result.
	validations, exemptions, failed uint8
}

// A ruleRef names a rule.
type ruleRef struct {
	policy usher.PolicyRef
	rule   string
}

// A keptShort is a kept whose texts are short, as usual, in one allocation.
type keptShort struct {
	kept

	buffer [184]byte
}

// A keptSlow is a rule that took long.
type keptSlow struct {
	rule unique.Handle[ruleRef]
	took time.Duration
}

// What a kept takes of memory, with its slot.
const sizeOfKept, sizeOfRule, sizeOfName, sizeOfSlow = 152, 16, 8, 16

// size returns what the kept takes of memory, without the names of policies, which all have in
// common; 0 for nil.
func (k *kept) size() int64 {
	if k == nil {
		return 0
	}
	size := int64(sizeOfKept + cap(k.text) + sizeOfRule*cap(k.rules) + sizeOfName*cap(k.names))
	if k.slowest != nil {
		size += sizeOfSlow
	}
	return size
}

// The words of phases, verdicts and outcomes, of which a kept has the index. The last ones are those
// of unknown ones.
var (
	phases   = []string{string(usher.Authorize), string(usher.Mutate), string(usher.Validate), "other"}
	verdicts = []string{"noOpinion", string(usher.Allow), string(usher.Deny), Errored}
	outcomes = []string{
		string(usher.Passed), string(usher.Skipped), string(usher.Changed), string(usher.Rejected), string(usher.Failed),
		string(usher.WouldDeny), string(usher.Exempted), "other",
	}
)

// Errored is the verdict of a request without a decision.
const Errored = "error"

// indexOf returns the index of a word, or the last one.
func indexOf(words []string, word string) uint8 {
	for i, w := range words {
		if w == word {
			return uint8(i)
		}
	}
	return uint8(len(words) - 1)
}

// keep returns what is kept of a decision; nil if that is nothing. Texts are copied: those of
// requests are parts of their bodies.
func keep(r *usher.Request, d *usher.Decision, err error, start time.Time) *kept {
	if r.Access != nil && verdictOf(d, err) == 0 && !differ(d.Findings) {
		return nil
	}
	return keepAny(r, d, err, start)
}

// keepAny is keep for every decision.
func keepAny(r *usher.Request, d *usher.Decision, err error, start time.Time) *kept {
	all := [texts]string{
		uid: r.UID, operation: string(r.Operation), group: r.Kind.Group, version: r.Kind.Version, kind: r.Kind.Kind, resource: r.Resource.Resource,
		subresource: r.Subresource, namespace: r.Namespace, name: r.ObjectName(), userName: r.User.Name,
	}
	if r.Access != nil {
		all[operation], all[path] = r.Access.Verb, r.Access.Path
	}
	k := copied(&all)
	k.at, k.took, k.code, k.verdict = start.UnixNano(), int64(time.Since(start)), int16(d.Code), verdictOf(d, err)
	k.phase, k.flags = indexOf(phases, string(r.Phase)), flagsOf(r, d)
	k.addRules(d.Findings)
	if k.took >= int64(SlowRule) {
		k.addSlowest(d.Findings)
	}
	return k
}

func verdictOf(d *usher.Decision, err error) uint8 {
	switch {
	case err != nil:
		return 3
	case d.Verdict == usher.NoOpinion:
		return 0
	}
	return indexOf(verdicts, string(d.Verdict))
}

func flagsOf(r *usher.Request, d *usher.Decision) (f flags) {
	if r.DryRun {
		f |= dryRun
	}
	if len(d.Patch) > 0 {
		f |= changed
	}
	if len(d.Warnings) > 0 {
		f |= warned
	}
	return f
}

// copied returns a kept with copies of texts.
func copied(all *[texts]string) *kept {
	total := 0
	for i := range all {
		if len(all[i]) > longest[i] {
			all[i] = printable.Cut(all[i], longest[i])
		}
		total += len(all[i])
	}
	var k *kept
	if total <= len(keptShort{}.buffer) {
		short := &keptShort{}
		k, short.text = &short.kept, short.buffer[:0]
	} else {
		k = &kept{text: make([]byte, 0, total)}
	}
	text := k.text
	for i := range all {
		text = append(text, all[i]...)
		k.ends[i] = uint16(len(text))
	}
	k.text = text
	return k
}

// field returns one of the texts.
func (k *kept) field(i int) []byte {
	start := uint16(0)
	if i > 0 {
		start = k.ends[i-1]
	}
	return k.text[start:k.ends[i]]
}

// addRules adds the rules that made a difference.
func (k *kept) addRules(findings []usher.Finding) {
	rules, names := 0, 0
	for i := range findings {
		f := &findings[i]
		if fails(f) {
			k.flags |= failed
		}
		if !differs(f) {
			continue
		}
		if rules++; rules <= mostRules {
			names += min(len(f.Checks), mostNames) + min(len(f.Exemptions), mostNames)
		}
	}
	if rules == 0 {
		return
	}
	k.omitted = uint16(min(max(rules-mostRules, 0), 1<<16-1))
	k.rules = make([]keptRule, 0, min(rules, mostRules))
	k.names = make([]unique.Handle[string], 0, names)
	// Those that deny or fail come first: there is no place for all.
	for _, first := range []bool{true, false} {
		for i := range findings {
			if f := &findings[i]; len(k.rules) < cap(k.rules) && differs(f) && (f.Denies() || fails(f)) == first {
				k.addRule(f)
			}
		}
	}
}

// addSlowest adds the rule that took the longest.
func (k *kept) addSlowest(findings []usher.Finding) {
	var slowest *usher.Finding
	for i := range findings {
		if f := &findings[i]; f.Took >= SlowRule && f.Policy != (usher.PolicyRef{}) && (slowest == nil || f.Took > slowest.Took) {
			slowest = f
		}
	}
	if slowest != nil {
		k.slowest = &keptSlow{unique.Make(refOf(slowest)), slowest.Took}
	}
}

// differs reports whether a rule made a difference.
func differs(f *usher.Finding) bool {
	quiet := f.Outcome == usher.Passed || f.Outcome == usher.Skipped
	return (!quiet || len(f.Checks) > 0) && f.Policy != (usher.PolicyRef{})
}

func differ(findings []usher.Finding) bool {
	for i := range findings {
		if differs(&findings[i]) {
			return true
		}
	}
	return false
}

// fails reports whether a rule, or a part of it, has no result.
func fails(f *usher.Finding) bool {
	if f.Outcome == usher.Failed {
		return true
	}
	for i := range f.Checks {
		if f.Checks[i].Failed {
			return true
		}
	}
	return false
}

// ruleFlags returns the flags of a rule. One that passes may have warned, or said something for the audit log alone.
func ruleFlags(f *usher.Finding) (all flags) {
	if f.Ignored {
		all |= ignored
	}
	if f.Written {
		all |= written
	}
	if fails(f) {
		all |= failed
	}
	for i := 0; f.Outcome == usher.Passed && i < len(f.Checks); i++ {
		if slices.Contains(f.Checks[i].Actions, usher.ActWarn) {
			all |= warned
		}
		if slices.Contains(f.Checks[i].Actions, usher.ActAudit) {
			all |= audited
		}
	}
	return all
}

func (k *kept) addRule(f *usher.Finding) {
	r := keptRule{rule: unique.Make(refOf(f)), outcome: indexOf(outcomes, string(f.Outcome)), flags: ruleFlags(f)}
	for i := range f.Checks[:min(len(f.Checks), mostNames)] {
		check := &f.Checks[i]
		if i == 0 || check.Name != f.Checks[i-1].Name {
			k.names = append(k.names, unique.Make(placeOf(check)))
			r.validations++
		}
		if check.Failed {
			r.failed |= 1 << (r.validations - 1)
		}
	}
	for i := range f.Exemptions[:min(len(f.Exemptions), mostNames)] {
		k.names = append(k.names, unique.Make(own(f.Exemptions[i].PolicyRef.String())))
		r.exemptions++
	}
	k.rules = append(k.rules, r)
}

// refOf names the rule of a finding.
func refOf(f *usher.Finding) ruleRef {
	return ruleRef{usher.PolicyRef{Kind: own(f.Policy.Kind), Namespace: own(f.Policy.Namespace), Name: own(f.Policy.Name)}, own(f.Rule)}
}

// placeOf names a validation: its place, and the name that the policy gives it.
func placeOf(c *usher.Check) string {
	if c.Validation == "" {
		return own(c.Name)
	}
	return own(c.Name + " (" + c.Validation + ")")
}

// own bounds a name of a policy.
func own(text string) string {
	return printable.Cut(text, longestName)
}
