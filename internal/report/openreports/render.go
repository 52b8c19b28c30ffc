package openreports

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// A message has at most maxMessage bytes of JSON, a name or path maxName, and so a result
	// maxResult.
	maxMessage = 1024
	maxName    = 320
	maxResult  = 8192
)

// A key identifies a result by its content without the time.
type key [16]byte

// render returns the report form of a result, bounded, without a time.
func render(r *result.Result) Result {
	properties := map[string]string{}
	if r.Policy.Kind != "" {
		properties[PropertyKind] = r.Policy.Kind
	}
	rule := r.Rule
	if r.Validation != "" {
		rule, properties[PropertyPath] = r.Validation, r.Rule
	}
	if r.Field != "" {
		properties[PropertyField] = r.Field
	}
	if len(r.Actions) > 0 {
		properties[PropertyActions] = actions(r.Actions)
	}
	if r.Exemption != nil {
		properties[PropertyExemption] = r.Exemption.String()
	}
	for name, value := range properties {
		properties[name] = bounded(value, maxName)
	}
	policy := r.Policy.Name
	switch {
	case r.Policy.Namespace != "":
		policy = r.Policy.Namespace + "/" + policy
	case policy == "":
		// It is about the audit itself.
		policy = Source
	}
	return Result{
		Source: Source, Policy: bounded(policy, maxName), Rule: bounded(rule, maxName),
		Category: bounded(r.Category, maxName), Severity: severity(r.Severity),
		Result: r.Status, Scored: r.Status == result.Fail, Message: bounded(r.Message, maxMessage), Properties: properties,
		Subjects: []corev1.ObjectReference{{
			APIVersion: bounded(r.Object.APIVersion, maxName), Kind: bounded(r.Object.Kind, maxName), UID: types.UID(bounded(string(r.Object.UID), maxName)),
			Namespace: bounded(r.Object.Namespace, maxName), Name: bounded(r.Object.Name, maxName),
		}},
	}
}

func actions(all []usher.Action) string {
	texts := make([]string, len(all))
	for i, action := range all {
		texts[i] = string(action)
	}
	return strings.Join(texts, ",")
}

// severity returns s, or nothing if API servers would reject the report because of it.
func severity(s usher.Severity) usher.Severity {
	if result.SeverityRank(s) < len(result.Severities()) {
		return s
	}
	return ""
}

// bounded returns s without control characters, or the beginning of it that has at most limit bytes as JSON.
func bounded(s string, limit int) string {
	const ellipsis = "…"
	s = printable.BlankLines(s)
	size, end := 0, 0
	for i, r := range s {
		size += jsonSize(r)
		if size <= limit-len(ellipsis) {
			end = i + utf8.RuneLen(r)
		}
		if size > limit {
			return s[:end] + ellipsis
		}
	}
	return s
}

// jsonSize returns how many bytes a character has as JSON, when it is escaped as API servers do.
func jsonSize(r rune) int {
	switch {
	case r < ' ', r == 0x7f, r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
		return len(`\u0000`)
	case r == '"', r == '\\':
		return 2
	}
	return utf8.RuneLen(r)
}

// keys gives results keys. Equal results get different ones, in their order.
type keys map[key]uint32

func (k keys) of(r Result) key {
	r.Timestamp = Timestamp{}
	// Strings, numbers and maps of strings have JSON.
	text, _ := json.Marshal(r) //nolint:errchkjson // see above
	first := newKey(text)
	n := k[first]
	k[first]++
	if n == 0 {
		return first
	}
	return newKey(binary.BigEndian.AppendUint32(text, n))
}

func newKey(text []byte) key {
	sum := sha256.Sum256(text)
	return key(sum[:len(key{})])
}

// kindOf returns the kind of the object that a result is about.
func kindOf(r *Result) schema.GroupKind {
	if len(r.Subjects) == 0 {
		return schema.GroupKind{}
	}
	return r.Subjects[0].GroupVersionKind().GroupKind()
}

// isSound reports whether a stored result is one that Usher could have written.
func isSound(r *Result, namespace string) bool {
	if r.Source != Source || !isReported(r.Result) || len(r.Subjects) != 1 {
		return false
	}
	s := &r.Subjects[0]
	// Some results are about a namespace as a whole.
	if s.Namespace != namespace && (s.Namespace != "" || s.Kind != "Namespace" || s.Name != namespace) {
		return false
	}
	text, err := json.Marshal(r)
	return err == nil && len(text) <= maxResult
}

// compareResults orders the results of a report: by object, then by policy.
func compareResults(a, b *Result) int {
	x, y := subject(a), subject(b)
	return cmp.Or(
		cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name),
		cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Properties[PropertyField], b.Properties[PropertyField]),
	)
}

func subject(r *Result) *corev1.ObjectReference {
	if len(r.Subjects) == 0 {
		return &corev1.ObjectReference{}
	}
	return &r.Subjects[0]
}

// choose returns the results that are reported if at most limit of them may be, the worst first,
// and how many would be without the limit.
func choose(results []result.Result, limit int) (chosen []*result.Result, want int) {
	ranks := make([][]*result.Result, 3*(len(result.Severities())+1))
	for i := range results {
		r := &results[i]
		status := slices.Index([]result.Status{result.Error, result.Fail, result.Warn}, r.Status)
		if status < 0 {
			continue
		}
		rank := status*(len(result.Severities())+1) + result.SeverityRank(r.Severity)
		ranks[rank] = append(ranks[rank], r)
		want++
	}
	for _, rank := range ranks {
		chosen = append(chosen, rank[:min(len(rank), limit-len(chosen))]...)
	}
	return chosen, want
}
