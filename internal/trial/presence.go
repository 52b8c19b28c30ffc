package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// missing finds optional fields without which the rule fails.
func (t *run) missing(ctx context.Context, operation usher.Operation, least, full map[string]any) {
	var found []path
	optional := t.optional(least, full)
	for _, p := range optional {
		if t.isSet(p) || slices.ContainsFunc(found, func(deeper path) bool { return deeper.below(p) }) {
			continue
		}
		failure := t.failure(ctx, operation, without(full, p))
		if failure == nil || ctx.Err() != nil {
			continue
		}
		found = append(found, p)
		one := t.problem(fmt.Sprintf("every %s %s would be refused, because the rule fails: %s", t.of.Kind, p.lacking(), reason(failure)), "")
		one.Do = t.guard(p, t.above(ctx, operation, full, p, optional), failure)
		t.lacks = append(t.lacks, lack{at: p, problem: len(t.problems)})
		t.problems = append(t.problems, one)
	}
}

// above returns the parts of an object that lead to p, and without which the rule fails, too: the outermost
// first.
func (t *run) above(ctx context.Context, operation usher.Operation, full map[string]any, p path, optional []path) (all []path) {
	for end := 1; end < len(p); end++ {
		part := p[:end]
		isOptional := slices.ContainsFunc(optional, func(other path) bool { return slices.Equal(other, part) })
		if isOptional && !t.isSet(part) && t.failure(ctx, operation, without(full, part)) != nil {
			all = append(all, part)
		}
	}
	return all
}

// guard returns advice how a rule can handle a missing field. The parts above it can be missing, too.
func (t *subject) guard(p path, above []path, failure error) string {
	if len(t.rule.Steps) == 1 {
		switch t.rule.Steps[0].Name {
		case "cel":
			if test := presence(append(above, p)); test != "" {
				return "ask first whether it is there: " + test
			}
			return "ask first whether it is there: with has() or an optional selection"
		case "plaintext":
			if _, removes := errors.AsType[jsonpatch.RemovalError](failure); removes {
				return "use template or origin, or CUE with a condition: they remove what is there"
			}
			return "use template or origin, which make what is missing, or add " + p.pointer() + " first"
		case "cue":
			if !p.inList() {
				return "write if object." + p.expression() + " != _|_ { … } around it"
			}
			return "test for it first, in an if clause of its own"
		}
	}
	return "let the rule do without it"
}

// presence returns an expression in CEL that asks for one field after the other; empty if that would be about elements
// of lists.
func presence(fields []path) string {
	var tests []string
	for _, p := range fields {
		of, last := p[:len(p)-1].expression(), p[len(p)-1]
		switch {
		case p.inList() || strings.ContainsAny(last, `'\`) || strings.Contains(of, `"`):
			return ""
		case p.isKey() || fieldWord.FindString(last) != last:
			tests = append(tests, "'"+last+"' in object."+of)
		default:
			tests = append(tests, "has(object."+p.expression()+")")
		}
	}
	return strings.Join(tests, " && ")
}

// absent tries the rule without each field that it reads, whether or not objects without it can exist:
// a rule may check that.
func (t *run) absent(ctx context.Context, operation usher.Operation, full map[string]any) {
	for i := range t.uses {
		for _, p := range t.uses[i].Paths {
			for end := 2; end <= len(p) && i < mostVariants; end++ {
				if p[end-1] == rule.Element || path(p[:end]).isIdentity() || t.isSet(p[:end]) {
					continue
				}
				if failed := t.failed; t.failure(ctx, operation, without(full, path(p[:end]))) != nil {
					t.failed = failed
				}
			}
		}
	}
}

// alwaysSet are fields to which API servers give a value, if an object that has their parent does not, before they
// call webhooks. Fields that only some objects get, such as the strategy.rollingUpdate of a Deployment, are not.
var alwaysSet = strings.Fields(`imagePullPolicy terminationMessagePath terminationMessagePolicy resources
	dnsPolicy restartPolicy schedulerName securityContext terminationGracePeriodSeconds enableServiceLinks
	replicas revisionHistoryLimit progressDeadlineSeconds strategy updateStrategy podManagementPolicy minReplicas
	type sessionAffinity targetPort protocol policyTypes volumeMode persistentVolumeReclaimPolicy reclaimPolicy volumeBindingMode
	backoffLimit completionMode suspend concurrencyPolicy failedJobsHistoryLimit successfulJobsHistoryLimit`)

// isSet reports whether API servers set a field of objects of a kind of theirs: it is in the minimal object, as
// they send it, or in a part that this does not have.
func (m *maker) isSet(p path) bool {
	if m.sent == nil || len(p) < 2 {
		return false
	}
	name := p[len(p)-1]
	switch {
	case strings.HasSuffix(p[len(p)-2], "Probe"):
		return slices.Contains([]string{"timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}, name)
	case name == "protocol":
		return len(p) > 2 && p[len(p)-2] == rule.Element && p[len(p)-3] == "ports"
	}
	var at any = m.sent
	for _, step := range p {
		if strings.HasSuffix(step, "Containers") {
			step = "containers"
		}
		object, _ := at.(map[string]any)
		if list, ok := at.([]any); ok && len(list) > 0 {
			at = list[0]
			continue
		}
		at = object[step]
	}
	return at != nil && slices.Contains(alwaysSet, name)
}

// complete gives an object the fields that API servers set. What they set at path is like.
func (m *maker) complete(tree, like any, at path) {
	switch tree := tree.(type) {
	case map[string]any:
		like, _ := like.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(like)) {
			next := append(slices.Clone(at), name)
			if _, has := tree[name]; !has && m.isSet(next) {
				tree[name] = runtime.DeepCopyJSONValue(like[name])
			}
			m.complete(tree[name], like[name], next)
		}
	case []any:
		if like, _ := like.([]any); len(like) > 0 {
			for _, element := range tree {
				m.complete(element, like[0], append(slices.Clone(at), rule.Element))
			}
		}
	}
}

// unset tries a rule that has done nothing so far on objects that do not exist: without a field that API servers
// set. What it does there, its writer meant to happen.
func (t *run) unset(ctx context.Context, operation usher.Operation, bases ...map[string]any) {
	if t.acted > 0 || t.unknown {
		return
	}
	failed := t.failed
	for _, base := range bases {
		for _, p := range fields(base) {
			if !t.named(p) || !t.isSet(p) || slices.ContainsFunc(t.needless, func(other path) bool { return slices.Equal(other, p) }) {
				continue
			}
			problems := len(t.problems)
			for _, value := range t.others(p) {
				_ = t.failure(ctx, operation, with(base, p, value))
			}
			if t.failed, t.problems = failed, t.problems[:problems]; t.acted > 0 {
				t.needless = nil
				return
			}
			if t.failure(ctx, operation, without(base, p)) == nil && t.acted > 0 {
				t.needless = append(t.needless, p)
			}
			t.acted, t.refused, t.failed, t.problems = 0, 0, failed, t.problems[:problems]
		}
	}
}

// Completed returns an object of a kind of Kubernetes with the fields that API servers set before they call webhooks,
// or nil if no kind is recorded of the object. The object is not changed.
func Completed(object map[string]any) map[string]any {
	sent, ok := minimal(kindOf(object))
	if !ok {
		return nil
	}
	completed := runtime.DeepCopyJSON(object)
	(&maker{sent: sent}).complete(completed, sent, nil)
	return completed
}

// others returns values of a field: a rule may change what it has, or refuse it, whatever that is.
func (m *maker) others(p path) []any {
	at := m.set.Follow(m.like, p).At
	if at == nil {
		return nil
	}
	switch of := at.Kind(); {
	case len(at.Enum) > 0:
		return at.Enum
	case of == kind.Bool:
		return []any{true, false}
	case of == kind.Integer:
		return []any{int64(0), int64(1), int64(largeNumber)}
	case of == kind.Text:
		return []any{"x", "y"}
	case of == kind.Object, of == kind.Map:
		return []any{map[string]any{}}
	}
	return nil
}

// fields returns the fields of an object, of one element of each list.
func fields(object map[string]any) []path {
	var all []path
	var walk func(at path, tree any)
	walk = func(at path, tree any) {
		switch tree := tree.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(tree)) {
				next := append(slices.Clone(at), name)
				all = append(all, next)
				walk(next, tree[name])
			}
		case []any:
			if len(tree) > 0 {
				walk(append(slices.Clone(at), rule.Element), tree[0])
			}
		}
	}
	walk(nil, object)
	return all
}
