// Package rule defines the one form that every kind of policy compiles to. Compilers make rules,
// the index finds those that match a request, the engine runs them; none of them depends on the
// kind of a policy.
package rule

import (
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// A Rule is one rule of one policy, compiled. It is immutable.
type Rule struct {
	// Policy is zero for built-in rules.
	Policy usher.PolicyRef
	// Name is the rule's path in its policy, such as spec.overrideRules[0].
	Name  string
	Phase usher.Phase
	// Pass orders matching: the rules of one pass are matched together, on the result of the passes
	// before, and then run in order. Lower passes come first; within a pass, rules run in the order
	// in which they were emitted.
	Pass  int
	Match Match
	// Pod, unless nil, has the engine run the steps on the pod that a workload would make.
	Pod *Pod
	// Inspects says that the rule has nothing to say about the object of a request: its steps ask for an
	// [Inspection].
	Inspects bool
	// NotForCleanup says that the rule is not for updates that do nothing but remove finalizers and owners, of which it
	// reads none: objects that violate it could never be deleted.
	NotForCleanup bool
	// FailurePolicy says how to handle a request when the rule fails; empty leaves that to the
	// engine.
	FailurePolicy usher.FailurePolicy
	// Independent rules run although another rule of their policy has denied the request. Of
	// their denials users are told the first, as API servers do with admission policies.
	Independent bool
	// Reinvoked rules run once more after the rules of their pass have changed the object, unless
	// they were not for it, and API servers call their entry again after other webhooks have changed
	// it: see the part [Reinvoked].
	Reinvoked bool
	// Facts limit the facts that the steps may use; nil allows all.
	Facts *fact.Bounds
	// Description is that of the policy, which its rules share; nil is none.
	Description *Description
	// Exemptions may exempt requests from the rule. They are judged once the rule has something to
	// say.
	Exemptions []Exempting
	// Steps run in order, each on the result of the step before, all or nothing: if one fails or
	// rejects, the changes of the others are dropped.
	Steps []Step
}

// A Description is what reports say about a policy besides its rules.
type Description struct {
	// Category is empty if the policy does not say.
	Category string
	// Severity is that of rules that do not say themselves; empty if the policy does not either.
	Severity usher.Severity
	// Parts identify what the policy and its bindings are compiled from. What is compiled again differs.
	Parts []any
}

// A Step is one program of a rule, with its name in findings and logs: template, cue, origin,
// plaintext.
type Step struct {
	Name    string
	Program Program
}

// ReadPaths returns the paths that the steps read in the object and in the old object: all, if one of them may
// read anything. With Pod they are those of the pod.
func (r *Rule) ReadPaths() (object, old *usher.Paths) {
	object, old = &usher.Paths{}, &usher.Paths{}
	for i := range r.Steps {
		selective, ok := r.Steps[i].Program.(Selective)
		if !ok {
			return usher.AllPaths(), usher.AllPaths()
		}
		inObject, inOld := selective.ReadPaths()
		object.Merge(inObject)
		old.Merge(inOld)
	}
	return object, old
}

// Brief reports whether everything that is done for the rule is: see [Brief].
func (r *Rule) Brief() bool {
	if r.Pod != nil || r.Inspects || len(r.Exemptions) > 0 {
		return false
	}
	for i := range r.Steps {
		if program, ok := r.Steps[i].Program.(Brief); !ok || !program.Brief() {
			return false
		}
	}
	return true
}

// SlowPath returns the steps that run slowly, with the reasons.
func (r *Rule) SlowPath() map[string]string {
	var slow map[string]string
	for _, s := range r.Steps {
		program, ok := s.Program.(SlowPath)
		if !ok {
			continue
		}
		if why := program.SlowPath(); why != "" {
			if slow == nil {
				slow = map[string]string{}
			}
			slow[s.Name] = why
		}
	}
	return slow
}

// String formats the rule as one stable line:
//
//	mutate/1 ClusterOverridePolicy add-team spec.overrideRules[0] on CREATE of v1 Pod: template(...), plaintext(...)
func (r *Rule) String() string {
	var b strings.Builder
	b.WriteString(string(r.Phase))
	b.WriteByte('/')
	b.WriteString(strconv.Itoa(r.Pass))
	b.WriteByte(' ')
	if r.Policy == (usher.PolicyRef{}) {
		b.WriteString("built-in")
	} else {
		b.WriteString(r.Policy.String())
	}
	b.WriteByte(' ')
	b.WriteString(r.Name)
	b.WriteString(" on ")
	b.WriteString(r.Match.String())
	if r.Pod != nil {
		b.WriteString(", for the pod as on " + r.Pod.Match.String())
	}
	b.WriteString(": ")
	for i, s := range r.Steps {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.Name)
		b.WriteByte('(')
		b.WriteString(s.Program.String())
		b.WriteByte(')')
	}
	return b.String()
}
