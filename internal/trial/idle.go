package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// idle warns of a rule that did nothing on any object of any kind.
func idle(runs []*run) []rule.Problem {
	if needless := needlessFields(runs); len(needless) > 0 {
		return needless
	}
	if len(runs) == 0 || runs[0].rule.Match.Operations != nil && len(runs[0].operations()) == 0 || slices.ContainsFunc(runs, func(t *run) bool {
		return t.acted > 0 || t.failed || t.unknown || t.explained.reads || t.explained.step || !t.certain()
	}) {
		return nil
	}
	what := "changes nothing"
	if runs[0].rule.Phase == usher.Validate {
		what = "refuses nothing"
	}
	var names []string
	for _, t := range runs {
		names = append(names, t.of.Kind)
	}
	do := "try it with usher decide on an object that it is meant for"
	if operations := runs[0].operations(); runs[0].readsOld() && !slices.Contains(operations, usher.Update) {
		do = "there is an old object on UPDATE only: write targetOperations: [UPDATE]"
	}
	return []rule.Problem{runs[0].problem(
		fmt.Sprintf("the rule %s on any object of kind %s that it was tried on, with all values that it compares with", what, strings.Join(names, ", ")), do)}
}

// needlessFields warns of a rule that does something only without a field that API servers set.
func needlessFields(runs []*run) []rule.Problem {
	var all []rule.Problem
	for _, t := range runs {
		if t.acted > 0 || t.unknown {
			return nil
		}
		does := "changes"
		if t.rule.Phase == usher.Validate {
			does = "refuses"
		}
		for _, p := range t.needless {
			all = append(all, t.problem(
				fmt.Sprintf("of the objects of kind %s that it was tried on, the rule %s only those without %s, and there are none: API servers set this field before policies see an object", t.of.Kind, does, p.expression()),
				valueTest(p)))
		}
	}
	return all
}

// valueTest is advice to test for a value of a field that API servers set.
func valueTest(p path) string {
	advice := "test for a value of the field; what the author wrote and the default cannot be told apart"
	if p[len(p)-1] == "imagePullPolicy" {
		advice += ": see the policy pull-always of the library"
	}
	return advice
}

// certain reports whether the effect of the rule depends only on values that it compares with
// constants.
func (t *subject) certain() bool {
	if t.explained.depends {
		return false
	}
	for _, s := range t.rule.Steps {
		_, traced := s.Program.(rule.Traced)
		if t.rule.Phase == usher.Mutate && s.Name == "template" || !traced && s.Name != "origin" && s.Name != "plaintext" {
			return false
		}
	}
	return !slices.ContainsFunc(t.uses, func(u rule.Use) bool {
		if t.reads(u, func(at *kind.Schema) bool { return at.Kind() == kind.Map }, rule.Element) {
			return true // By its keys.
		}
		// No other object is read if no fact was requested.
		return u.Of != rule.OtherObject && u.Of != rule.OwnerObject && (len(u.Paths) == 0 || !u.Only && !t.switches(u))
	})
}

// switches reports whether a value is one of a few, all of which are tried.
func (t *subject) switches(u rule.Use) bool {
	for _, p := range u.Paths {
		if at := t.set.Follow(t.like, p).At; at != nil && (at.Kind() == kind.Bool || len(at.Enum) > 0) {
			return true
		}
	}
	return false
}

// reads reports whether a path has a step from a schema for which is returns true.
func (t *subject) reads(u rule.Use, is func(*kind.Schema) bool, step string) bool {
	for _, p := range u.Paths {
		for i, name := range p {
			if name != step {
				continue
			}
			if at := t.set.Follow(t.like, p[:i]).At; at != nil && is(at) {
				return true
			}
		}
	}
	return false
}

// always warns of a rule that rejects everything, unless that is obvious from the rule.
func (t *run) always() {
	if t.rule.Phase != usher.Validate || !t.certain() || t.tried == 0 || t.refused < t.tried || t.unknown || t.explained.reads || t.explained.refuses {
		return
	}
	if (len(t.uses) == 0 || t.limited()) && !t.unlimited() {
		return
	}
	what, do := fmt.Sprintf("every %s that it was tried on would be refused: %s", t.of.Kind, cmp.Or(t.last, "no reason is given")), "correct the rule, and try it with usher decide"
	if len(t.rule.Match.Resources) == 0 && t.unlimited() {
		what = fmt.Sprintf("every %s that it was tried on would be refused, on CREATE, UPDATE and DELETE: %s", t.of.Kind, cmp.Or(t.last, "no reason is given"))
		do = "write targetOperations: [CREATE], so that those that exist can be changed and deleted"
		if t.explained.targets != nil {
			do = "name operations: [CREATE] in spec.matchConstraints.resourceRules, so that those that exist can be changed and deleted"
		}
	}
	t.problems = append(t.problems, t.problem(what, do))
}

// unlimited reports whether the rule is for every operation that changes objects: none is named, or each.
func (t *subject) unlimited() bool {
	named := t.rule.Match.Operations
	return len(named) == 0 || !slices.ContainsFunc([]usher.Operation{usher.Create, usher.Update, usher.Delete}, func(o usher.Operation) bool { return !slices.Contains(named, o) })
}

// limited reports whether the rule applies only to some objects of the kind.
func (t *subject) limited() bool {
	return !slices.ContainsFunc(t.rule.Match.Selectors, func(s rule.Selector) bool {
		return schema.FromAPIVersionAndKind(s.APIVersion, s.Kind) == t.of && s.Namespace == "" && s.Name == "" && len(s.Fields) == 0 && (s.Labels == nil || s.Labels.Empty())
	})
}
