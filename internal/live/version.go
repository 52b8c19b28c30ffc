package live

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A version is a policy, compiled. It is immutable: a change makes the next one.
type version struct {
	newest compile.Compiled
	// good is what is enforced: the newest version, or else the last one that compiled;
	// nil if none ever did.
	good *compile.Compiled
	// pending says that the newest version could not be compiled yet. Then good is the last one that
	// was compiled or, if there is none, one that always fails.
	pending bool
	// withheld says that the newest version is not enforced because it is not proven.
	withheld bool
	// suspended says who has suspended the newest version, which is in force in no version; "" if it is
	// not suspended. sound says that it compiles.
	suspended string
	sound     bool
	// action and kinds are what it does, and about what.
	action, kinds string
	// slow is why a rule of the newest version runs slowly, "" if none does.
	slow string
}

// next returns the version of policy that follows v, which may be nil. It returns v itself if
// the policy has not changed, and was not compiled again. If it was not compiled, it is pending.
func (v *version) next(policy api.Policy, compiled *compile.Compiled, pending func(api.Policy) compile.Compiled) *version {
	if compiled == nil && v != nil && v.holds(policy) {
		return v
	}
	next := &version{}
	if compiled != nil {
		next.newest = *compiled
	} else {
		next.newest = pending(policy)
	}
	next.pending = next.newest.Pending()
	next.sound = len(rule.Errors(next.newest.Problems)) == 0
	next.suspended = compile.Suspended(policy.Object)
	next.action, next.kinds = next.newest.Action(), next.newest.Kinds()
	if next.suspended != "" {
		return next
	}
	next.withheld = (next.sound || next.pending) && withheld(next.newest)
	if next.sound || next.withheld {
		next.newest.Problems = slices.Concat(next.newest.Problems, unproven(next.newest, next.withheld))
	}
	switch {
	case next.withheld:
	case next.sound:
		next.good, next.slow = &next.newest, slowest(next.newest.Rules)
	case v != nil && v.good != nil && !(v.pending && v.good == &v.newest):
		next.good = v.good
	case next.pending:
		next.good = &next.newest
	}
	return next
}

// tryable reports whether there is something to try.
func (v *version) tryable() bool { return !v.pending && len(rule.Errors(v.newest.Problems)) == 0 }

// slowest returns why the first slow rule runs slowly, and how many more do.
func slowest(rules []rule.Rule) string {
	first, more := "", 0
	for i := range rules {
		slow := rules[i].SlowPath()
		for _, step := range slices.Sorted(maps.Keys(slow)) {
			if first != "" {
				more++
				continue
			}
			first = fmt.Sprintf("%s %s: %s", rules[i].Name, step, slow[step])
		}
	}
	if more > 0 {
		first += fmt.Sprintf(", and %d more", more)
	}
	return first
}

// holds reports whether v is that policy. Its position in a file matters only if problems refer to
// it.
func (v *version) holds(policy api.Policy) bool {
	known := v.newest.Policy
	if known.Object != policy.Object && !same(known.Object, policy.Object) {
		return false
	}
	if known.Proof != policy.Proof || !slices.Equal(known.Unknown, policy.Unknown) || !slices.Equal(known.Duplicate, policy.Duplicate) {
		return false
	}
	if known.Position("") != policy.Position("") {
		return len(v.newest.Problems) == 0
	}
	for _, p := range v.newest.Problems {
		if known.PositionIn(p.Field, p.At.Line, p.At.Column) != policy.PositionIn(p.Field, p.At.Line, p.At.Column) {
			return false
		}
	}
	return true
}

// same reports whether two policies are the same version of the same object. The generation alone
// is not sufficient: files have the generation with which they were exported. It ignores metadata
// that the API server manages, and the status, which Usher itself writes as a result.
func same(a, b api.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(ours(a), ours(b)) &&
		reflect.DeepEqual(api.Spec(a), api.Spec(b))
}

// ours returns the annotations that Usher uses.
func ours(object api.Object) map[string]string {
	annotations := maps.Clone(object.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, "usher.dev/") })
	return annotations
}

// duplicate returns the problem of a policy that another source has, too.
func duplicate(ref usher.PolicyRef, policy, first api.Policy) rule.Problem {
	position, other := policy.Position(""), first.Position("")
	p := rule.Problem{
		Policy: ref, Severity: rule.Error, File: position.File, Line: position.Line,
		What: "another source holds a policy of this name, which is the one that counts",
		Do:   "rename or remove one of the two",
	}
	if other.File != "" {
		p.What = fmt.Sprintf("the policy of this name in %s:%d is the one that counts", other.File, other.Line)
	}
	return p
}
