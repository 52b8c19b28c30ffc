// Package trial tries policies before they are believed: on objects of the kinds that they select,
// the least that an API server accepts and ones with every field. It makes requests and reads
// decisions, and evaluates nothing itself. What it finds are warnings about consequences.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/index"
	"github.com/usher-dev/usher/rule"
)

// Problems tries each rule of a policy, and returns what its author should know, without positions
// in files. It ends with ctx: what it did not come to is not told.
func Problems(ctx context.Context, c compile.Compiled) []rule.Problem {
	if len(c.Rules) == 0 {
		return nil
	}
	problems := unknownKinds(c.Rules[0].Match.Selectors)
	words := wordsOf(api.Spec(c.Policy.Object))
	for i := range c.Rules {
		r := &c.Rules[i]
		problems = append(problems, unknownFields(r)...)
		problems = append(problems, tryRule(ctx, r, words)...)
	}
	for i := range problems {
		position := c.Policy.Position(problems[i].Field)
		problems[i].Policy, problems[i].File, problems[i].Line = c.Ref, position.File, position.Line
	}
	rule.SortProblems(problems)
	return problems
}

// errNotTried is the error of a fact that a trial does not have.
var errNotTried = errors.New("trials have no facts")

func noFacts(context.Context, fact.Ref) (any, error) { return nil, errNotTried }

// A run tries one rule on objects of one kind.
type run struct {
	rule    *rule.Rule
	decider usher.Decider
	kind    schema.GroupVersionKind
}

// tryRule tries a rule on each kind that it selects by name.
func tryRule(ctx context.Context, r *rule.Rule, words words) []rule.Problem {
	anywhere := *r
	anywhere.Match = rule.Match{}
	decider := engine.New(index.New([]rule.Rule{anywhere}), fact.ResolverFunc(noFacts), engine.Options{FailurePolicy: engine.Fail})
	var problems []rule.Problem
	for _, kind := range kindsOf(r.Match.Selectors) {
		least, ok := minimal(kind)
		if !ok {
			continue
		}
		t := run{rule: r, decider: decider, kind: kind}
		for _, p := range t.try(ctx, least, words) {
			if !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// kindsOf returns the kinds that selectors name.
func kindsOf(selectors []rule.Selector) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, s := range selectors {
		if kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// operations returns those of a rule that are tried.
func (t *run) operations() []usher.Operation {
	all := []usher.Operation{usher.Create, usher.Update, usher.Delete}
	if t.rule.Phase == usher.Mutate {
		// What fails on DELETE does not keep an object.
		all = all[:2]
	}
	if len(t.rule.Match.Operations) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(o usher.Operation) bool { return !slices.Contains(t.rule.Match.Operations, o) })
}

// try returns the results for objects of one kind.
func (t *run) try(ctx context.Context, least map[string]any, words words) []rule.Problem {
	full := words.complete(full(t.kind))
	works := usher.Operation("")
	var fails []usher.Operation
	var why error
	for _, operation := range t.operations() {
		if t.failure(ctx, operation, full) == nil {
			works = cmp.Or(works, operation)
			continue
		}
		if other := t.failure(ctx, operation, least); other != nil && ctx.Err() == nil {
			fails = append(fails, operation)
			why = cmp.Or(why, other)
		}
	}
	var problems []rule.Problem
	if len(fails) > 0 {
		problems = append(problems, t.problem(
			fmt.Sprintf("every %s would be refused, because the rule fails: %s", t.refused(fails), reason(why)), t.remedy(fails)))
	}
	if works != "" {
		problems = append(problems, t.missing(ctx, works, least, full, words)...)
	}
	return problems
}

// refused says which requests are: all that the rule is for, or those of some operations.
func (t *run) refused(operations []usher.Operation) string {
	if len(operations) == len(t.operations()) {
		return t.kind.Kind
	}
	texts := make([]string, len(operations))
	for i, operation := range operations {
		texts[i] = string(operation)
	}
	return strings.Join(texts, " and ") + " of a " + t.kind.Kind
}

func (t *run) remedy(fails []usher.Operation) string {
	if !slices.Contains(fails, usher.Update) && t.readsOld() {
		return "oldObject is there on UPDATE only: write targetOperations: [UPDATE], or another rule for the other operations"
	}
	return "correct the rule, and try it with usher decide"
}

// readsOld reports whether the rule reads the object as it was.
func (t *run) readsOld() bool {
	return slices.ContainsFunc(t.rule.Steps, func(s rule.Step) bool {
		reader, ok := s.Program.(interface{ Reads() []string })
		return ok && slices.ContainsFunc(reader.Reads(), func(path string) bool { return strings.HasPrefix(path, "oldObject") })
	})
}

// missing finds the fields that the rule needs and an object need not have.
func (t *run) missing(ctx context.Context, operation usher.Operation, least, full map[string]any, words words) []rule.Problem {
	var found []path
	var problems []rule.Problem
	for _, p := range optional(t.kind, least, full, words) {
		if slices.ContainsFunc(found, func(deeper path) bool { return deeper.below(p) }) {
			continue
		}
		failure := t.failure(ctx, operation, without(full, p))
		if failure == nil || ctx.Err() != nil {
			continue
		}
		found = append(found, p)
		problems = append(problems, t.problem(
			fmt.Sprintf("every %s %s would be refused, because the rule fails: %s", t.kind.Kind, p.lacking(), reason(failure)), t.guard(p, failure)))
	}
	return problems
}

// guard says how a rule does without a field.
func (t *run) guard(p path, failure error) string {
	if len(t.rule.Steps) == 1 {
		switch t.rule.Steps[0].Name {
		case "plaintext":
			if strings.Contains(failure.Error(), "remove") {
				return "use template or origin, or CUE with a condition: they remove what is there"
			}
			return "use template or origin, which make what is missing, or add " + p.parentPointer() + " first"
		case "cue":
			if !p.inList() {
				return "write if object." + p.expression() + " != _|_ { … } around it"
			}
			return "test for it first, in an if clause of its own"
		}
	}
	return "let the rule do without it"
}

func (t *run) problem(what, do string) rule.Problem {
	return rule.Problem{Severity: rule.Warning, Field: t.rule.Name, What: what, Do: do}
}

// failure returns why the rule fails on an object, nil if it does not, or cannot be tried.
func (t *run) failure(ctx context.Context, operation usher.Operation, object map[string]any) error {
	decision, err := t.decider.Decide(ctx, t.request(operation, object))
	if err != nil || ctx.Err() != nil {
		return nil
	}
	for _, finding := range decision.Findings {
		if finding.Outcome == usher.Failed && !errors.Is(finding.Err, errNotTried) {
			return finding.Err
		}
	}
	return nil
}

func (t *run) request(operation usher.Operation, object map[string]any) *usher.Request {
	r := &usher.Request{
		Phase: t.rule.Phase, Operation: operation, Kind: t.kind, Namespace: "x", Name: "x",
		User: usher.User{Name: "trial"},
	}
	if operation != usher.Delete {
		r.Object = usher.TreeObject(object)
	}
	if operation != usher.Create {
		r.OldObject = usher.TreeObject(object)
	}
	return r
}

// longest is how much of an error is told.
const longest = 200

func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
