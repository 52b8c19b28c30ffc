package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// A run tries one rule on objects of one kind.
type run struct {
	subject

	decider usher.Decider
	// tried counts the requests, acted those on which the rule had an effect, and refused those
	// that it rejected. Failed says that one failed, and unknown that one needed facts.
	tried, acted, refused int
	failed, unknown       bool
	world                 *world
	// needless are fields that API servers set, and without which alone the rule does something.
	needless []path
	// settled says that the rule works in the namespace that the world has: what fails there fails because of
	// the object.
	settled bool
	at      place
	// works is an operation for which the rule does not fail on base; empty if there is none.
	works usher.Operation
	base  map[string]any
	last  string
	// where is the part of an admission policy that failed last.
	where    string
	problems []rule.Problem
	// lacks are the problems with objects that lack something.
	lacks []lack
}

// A subject is a rule, and one of the kinds whose objects it is tried on.
type subject struct {
	*maker

	rule      *rule.Rule
	explained explained
}

// Explained says what other warnings explain already: that the rule reads a field that does not exist,
// or that one of its steps is wrong.
type explained struct {
	reads, step bool
	// targets are the kinds of an admission policy, with their resources.
	targets []typecheck.Target
	// broad says that the policy is for more kinds than it is tried on.
	broad bool
	// selects says that the namespace only decides whether an admission policy is for a request: its
	// expressions do not read it.
	selects bool
	// depends says that expressions of an admission policy ask who sends the request, or for what name in
	// another way than by comparing it: the requests that it is tried on say little about others.
	depends bool
	// refuses says that the rule refuses everything, whatever it is, or may, since it is for some users.
	refuses bool
	// data are those of an object policy, nil if trials do not have them.
	data *sampleData
	// slowest is the slowest rule so far.
	slowest *Slowest
}

// tryRule tries a rule on each kind that it selects by name.
func (t *Trial) tryRule(ctx context.Context, set *kind.Set, r *rule.Rule, words words, explained explained) []rule.Problem {
	anywhere := *r
	anywhere.Match = rule.Match{}
	around := &world{data: explained.data}
	decider := engine.New(index.New([]rule.Rule{anywhere}), around, engine.Options{FailurePolicy: usher.Fail, Overruns: t.options.Overruns})
	var found together
	var runs []*run
	for _, of := range kindsOf(r.Match.Selectors) {
		one := &run{subject: subject{rule: r, explained: explained}, decider: decider, world: around}
		if set.Schema(of) != nil {
			one.maker = newMaker(set, of, words, r)
			one.unrequested()
			one.settle(ctx)
			one.try(ctx)
			one.places(ctx)
			one.relabels(ctx)
			runs = append(runs, one)
		} else {
			one.maker = &maker{set: set, of: of, like: &kind.Schema{}}
		}
		one.given(ctx, t.options.Objects)
		found.add(of.Kind, one.problems, explained.targets != nil)
	}
	if ctx.Err() == nil && !explained.broad {
		found.add("", idle(runs), false)
	}
	return found.problems()
}

// operations returns the operations of a rule to try.
func (t *subject) operations() []usher.Operation {
	all := []usher.Operation{usher.Create, usher.Update, usher.Delete}
	if isOptions(t.of) {
		all = []usher.Operation{usher.Connect}
	} else if t.rule.Phase == usher.Mutate {
		// A failure on DELETE does not keep an object from being written.
		all = all[:2]
	}
	if len(t.rule.Match.Operations) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(o usher.Operation) bool { return !slices.Contains(t.rule.Match.Operations, o) })
}

// isOptions reports whether objects of a kind are options of CONNECT requests.
func isOptions(of schema.GroupVersionKind) bool {
	return of.Group == "" && strings.HasSuffix(of.Kind, "Options")
}

// unrequested warns of operations that no request for the kind has, or that have no effect.
func (t *run) unrequested() {
	named := t.rule.Match.Operations
	known := slices.DeleteFunc(slices.Clone(named), func(o usher.Operation) bool { return !slices.Contains(usher.Operations(), o) })
	if len(known) == 0 || len(t.operations()) > 0 {
		return
	}
	what, do := fmt.Sprintf("no request for a %s has the operation %s: the rule does nothing", t.of.Kind, known[0]), "select the options that are sent, such as PodExecOptions of v1"
	switch {
	case isOptions(t.of):
		do = "write CONNECT"
	case slices.Contains(known, usher.Delete):
		what, do = "what a rule changes on DELETE has no effect: the rule does nothing", "name CREATE or UPDATE"
	}
	p := t.problem(what, do)
	p.Field += ".targetOperations"
	t.problems = append(t.problems, p)
}

// try tries the rule on objects of the kind.
func (t *run) try(ctx context.Context) {
	t.enrich(ctx)
	least := t.least()
	variants := t.variants()
	// The rule works on a variant that it does not fail on. One that it does not refuse is better: what a field is
	// for does not show if the object is refused for another.
	works, base, refused := usher.Operation(""), 0, false
	var fails []usher.Operation
	var why, onFull error
	for _, operation := range t.operations() {
		failure := t.failure(ctx, operation, least)
		all := failure != nil
		for i, variant := range variants {
			if ctx.Err() != nil {
				return
			}
			before := t.refused
			if failed := t.failure(ctx, operation, variant); failed != nil {
				onFull = cmp.Or(onFull, failed)
				continue
			}
			refuses := t.refused > before
			if all = false; works == "" || refused && !refuses {
				works, base, refused = operation, i, refuses
			}
		}
		if all {
			fails = append(fails, operation)
			why = cmp.Or(why, failure)
		}
	}
	if len(fails) > 0 {
		if len(fails) == len(t.operations()) {
			t.lacks = append(t.lacks, lack{problem: len(t.problems)})
		}
		t.problems = append(t.problems, t.hopeless(fails, why, onFull))
	}
	if works != "" {
		object := variants[base]
		if refused {
			object = t.accepted(ctx, works, object)
		}
		t.works, t.base = works, object
		t.missing(ctx, works, least, object)
		t.deviate(ctx, works, object)
		t.absent(ctx, works, object)
		t.unset(ctx, works, least, object)
	}
	if len(fails) == 0 && ctx.Err() == nil {
		t.always()
	}
}

// accepted returns an object that the rule does not refuse and that differs in one field from one that it refuses, or
// that one.
func (t *run) accepted(ctx context.Context, operation usher.Operation, object map[string]any) map[string]any {
	for _, d := range t.deviations(object) {
		failed, refused := t.failed, t.refused
		failure := t.failure(ctx, operation, d.object)
		if t.failed = failed; failure == nil && t.refused == refused && ctx.Err() == nil {
			return d.object
		}
	}
	return object
}

// deviate finds values on which the rule fails.
func (t *run) deviate(ctx context.Context, operation usher.Operation, base map[string]any) {
	for _, d := range t.deviations(base) {
		failure := t.failure(ctx, operation, d.object)
		if failure == nil || ctx.Err() != nil || len(t.problems) >= mostProblems {
			continue
		}
		t.problems = append(t.problems, t.problem(
			fmt.Sprintf("every %s whose %s is %s would be refused, because the rule fails: %s", t.of.Kind, d.at.expression(), constant(d.value), reason(failure)),
			"correct the rule, and try it with usher decide"))
	}
}

// refusedObjects describes which requests are rejected: all that the rule applies to, or those of
// some operations.
func (t *subject) refusedObjects(operations []usher.Operation) string {
	if len(operations) == len(t.operations()) {
		return t.of.Kind
	}
	texts := make([]string, len(operations))
	for i, operation := range operations {
		texts[i] = string(operation)
	}
	return strings.Join(texts, " and ") + " of a " + t.of.Kind
}

func (t *subject) remedy(fails []usher.Operation) string {
	if t.explained.targets != nil && len(fails) == 1 && fails[0] == usher.Delete {
		return "on DELETE there is no object: read oldObject"
	}
	if !slices.Contains(fails, usher.Update) && t.readsOld() {
		if t.explained.targets != nil {
			return "oldObject is there on UPDATE and DELETE only: name these operations, or ask first: oldObject == null || …"
		}
		return "oldObject is there on UPDATE only: write targetOperations: [UPDATE], or another rule for the other operations"
	}
	return "correct the rule, and try it with usher decide"
}

// readsOld reports whether the rule reads the old object.
func (t *subject) readsOld() bool {
	return slices.ContainsFunc(t.uses, func(u rule.Use) bool { return u.Of == rule.OldObject })
}

func (t *run) problem(what, do string) rule.Problem {
	return rule.Problem{Severity: rule.Warning, Field: cmp.Or(t.where, t.rule.Name), What: what, Do: do}
}

// fails records that a part of the rule fails, and returns why. If it takes too much, it only warns of that, once:
// it is due to no field of the object.
func (t *run) fails(outcome usher.Outcome, where string, failure error) error {
	t.failed = true
	if outcome == usher.Rejected {
		t.refused++
		t.where = where
	}
	advice := allowance.Advice(failure.Error())
	if advice == "" {
		return failure
	}
	what := fmt.Sprintf("a %s that it was tried on would be refused, because the rule fails: %s", t.of.Kind, reason(failure))
	p := t.problem(what, advice+"; measure it with usher explain --cost")
	if !slices.ContainsFunc(t.problems, func(told rule.Problem) bool { return told.Field == p.Field && told.Do == p.Do }) {
		t.problems = append(t.problems, p)
	}
	return nil
}

// failure returns why the rule fails on an object, nil if it does not, if that depends on what trials
// do not have, or if it takes too much. It records what the rule does.
func (t *run) failure(ctx context.Context, operation usher.Operation, object map[string]any) error {
	t.world.begin()
	begin := time.Now()
	decision, err := t.decider.Decide(ctx, t.request(operation, object))
	t.explained.slowest.note(t.rule.Name, time.Since(begin))
	// After a pause of the whole process the limit of the rule can be noticed before that of ctx.
	if end, limited := ctx.Deadline(); err != nil || ctx.Err() != nil || limited && time.Now().After(end) {
		return nil //nolint:nilerr // It says nothing about the rule.
	}
	t.tried++
	uncertain := t.world.lacks() || t.world.asked() && !t.settled
	for _, finding := range decision.Findings {
		where, failure := failedCheck(finding.Checks)
		if finding.Outcome == usher.Failed {
			failure = finding.Err
		}
		switch {
		case finding.Ignored && len(finding.Checks) > 0:
			// A validation that fails and refuses nothing.
		case failure != nil && (finding.Outcome == usher.Failed || finding.Outcome == usher.Rejected):
			if uncertain {
				t.unknown = true
				return nil
			}
			return t.fails(finding.Outcome, where, failure)
		case finding.Outcome == usher.Rejected:
			t.refused++
			t.acted++
			t.last = finding.Message
		case finding.Outcome == usher.Changed:
			t.acted++
			t.check(object, finding.Patch)
		}
	}
	t.unknown = t.unknown || t.world.asked()
	if len(decision.Warnings) > 0 {
		t.acted++
	}
	return nil
}

func (t *subject) request(operation usher.Operation, object map[string]any) *usher.Request {
	r := &usher.Request{
		Phase: t.rule.Phase, Operation: operation, Kind: t.of, Name: "x", User: usher.User{Name: "trial", Groups: []string{"system:authenticated"}},
		Resource: t.resourceOf().Resource,
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		r.Namespace, _ = metadata["namespace"].(string)
		r.Name, _ = metadata["name"].(string)
	}
	if r.Namespace == "" && len(t.like.Properties) > 0 && t.like.Properties["metadata"] == nil && !t.set.ClusterScoped(t.of) {
		// Options of subresources say nothing of themselves; that of their request does.
		r.Namespace = t.namespace
	}
	object = t.labelled(object)
	if operation != usher.Delete {
		r.Object = usher.TreeObject(object)
	}
	if operation == usher.Update || operation == usher.Delete {
		r.OldObject = usher.TreeObject(object)
	}
	return r
}

// longest limits the length of an error in a warning.
const longest = 200

// reason is an error, in one line that is not too long: rather the expression is cut than why it failed.
func reason(err error) string {
	text := printable.Words(err.Error())
	if at := strings.LastIndex(text, "' resulted in error: "); at >= 0 {
		why := text[at:]
		text = printable.Cut(text[:at], longest-min(len(why), longest/2)) + why
	}
	return printable.Cut(text, longest)
}
