package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source/dir"
)

// An Attempt is what usher decide reads, as texts: policies, and the request that they decide.
type Attempt struct {
	Policies, Object, OldObject, Facts string
	Operation, Resource, Subresource   string
	Namespace, Name                    string
	User                               usher.User
	DryRun                             bool
}

// A Result is what usher decide and usher explain say about an [Attempt].
type Result struct {
	// Problems are the errors of the policies. If there are any, there is no more.
	Problems  []rule.Problem
	Judgement Judgement
	Explained []explain.Explanation
	Set       policies.Set
	// Text is what usher decide prints.
	Text string

	flags  *explainFlags
	report decideReport
}

// The files that an attempt has, by the names that its results mention.
const (
	PoliciesFile = "policies.yaml"
	ObjectFile   = "object.yaml"
)

// An Attempter decides attempts that follow one another: policies that did not change are compiled once. It is safe for
// concurrent use.
type Attempter struct {
	limits  policies.Limits
	askHTTP bool

	mu   sync.Mutex
	last policies.Set
}

// NewAttempter returns an attempter for policies within limits. Checker, if not nil, checks each before it is compiled.
// Policies call HTTP services only if askHTTP is set.
func NewAttempter(limits policies.Limits, checker compile.Checker, askHTTP bool) (*Attempter, error) {
	none, err := policies.None(&limits)
	return &Attempter{limits: limits, askHTTP: askHTTP, last: none.CheckedBy(checker)}, err
}

// Compile returns the policies of a text, or their errors.
func (t *Attempter) Compile(ctx context.Context, text string) (policies.Set, []rule.Problem, error) {
	t.mu.Lock()
	before := t.last
	t.mu.Unlock()
	set, problems, err := before.AfterText(ctx, dir.Parse(PoliciesFile, []byte(text)))
	if err == nil && len(problems) == 0 {
		t.mu.Lock()
		t.last = set
		t.mu.Unlock()
	}
	return set, problems, err
}

// Decide decides an attempt as usher decide does.
func (t *Attempter) Decide(ctx context.Context, a *Attempt) (*Result, error) {
	set, problems, err := t.Compile(ctx, a.Policies)
	if err != nil || len(problems) > 0 {
		return &Result{Problems: problems}, err
	}
	f := &explainFlags{decideFlags: decideFlags{set: set, limits: t.limits}}
	if f.facts, err = facts.OfText(a.Facts); err != nil {
		return nil, err
	}
	f.facts.NoHTTP = !t.askHTTP
	store, resolver, err := f.facts.Load()
	if err != nil {
		return nil, err
	}
	f.store = store
	q, err := f.ask(a)
	if err != nil {
		return nil, err
	}
	f.know(store, []Question{q})
	result := &Result{Set: set, flags: f}
	j := &result.Judgement
	if *j, err = f.judge(ctx, set.Decider(resolver), set.Rules, q); err != nil {
		return nil, err
	}
	result.report = decideReport{Idle: set.Idle()}
	result.report.add(*j)
	var text strings.Builder
	if err := result.report.print(&text, cli.Palette{}, true); err != nil {
		return nil, err
	}
	result.Text = text.String()
	// Explanations are of decisions as an API server would ask for them.
	asked, err := judgeWithin(ctx, t.limits.Timeout(), atEntry(set.Decider(resolver)), nil, q)
	if err != nil {
		return nil, err
	}
	told := &explainReport{}
	if err := f.explain(ctx, told, explained{File: asked.File, Name: asked.Name.String(), Operation: asked.Operation, Allowed: asked.Allowed}, set.Rules, resolver, asked.asked); err != nil {
		return nil, err
	}
	result.Explained = told.Explained[0].Phases
	return result, nil
}

// inPlace is what the author of a case with policies in it has to know first.
const inPlace = "# Recorded by 'usher console': keep what the policies are for.\n"

// Case returns the decision as a case of usher test. The policies, as they were decided by, are in it.
func (r *Result) Case(a *Attempt) (string, error) {
	trees, err := object.Decode([]byte(a.Policies))
	if err != nil {
		return "", fmt.Errorf("policies: %w", err)
	}
	known := map[usher.PolicyRef]bool{}
	for _, c := range r.Set.Compiled() {
		known[c.Ref] = true
	}
	trees = slices.DeleteFunc(trees, func(tree map[string]any) bool {
		name := result.ToBe(tree)
		return !known[usher.PolicyRef{Kind: name.Kind, Namespace: name.Namespace, Name: name.Name}]
	})
	var text strings.Builder
	err = r.flags.writeCases(&text, &r.report, inPlace, func(c *policytest.Case) { c.Policies = trees })
	return text.String(), err
}

// ask returns the request of an attempt.
func (f *requestFlags) ask(a *Attempt) (Question, error) {
	subject, old := a.Object, a.OldObject
	operation := strings.ToUpper(a.Operation)
	if operation == "" && strings.TrimSpace(old) != "" {
		operation = string(usher.Update)
	}
	switch usher.Operation(operation) {
	case usher.Delete:
		subject, old = cmp.Or(strings.TrimSpace(old), subject), ""
	case usher.Update:
	default:
		old = ""
	}
	f.operation, f.resource, f.subresource = operation, a.Resource, a.Subresource
	f.namespace, f.name, f.dryRun = a.Namespace, a.Name, a.DryRun
	if err := f.complete(nil); err != nil {
		return Question{}, err
	}
	inputs, err := inputsOf("object", subject)
	if err != nil {
		return Question{}, err
	}
	if len(inputs) != 1 {
		return Question{}, fmt.Errorf("object: expected one object, and there are %d", len(inputs))
	}
	var olds []objects.Input
	if old != "" {
		if olds, err = inputsOf("old object", old); err != nil {
			return Question{}, err
		}
	}
	who := a.User
	if who.Name != "" || len(who.Groups) > 0 || who.UID != "" || len(who.Extra) > 0 {
		who.Groups = slices.Clone(who.Groups)
		who = user.Complete(who)
	}
	questions, err := f.requestsOf(inputs, olds, who)
	if err != nil {
		return Question{}, err
	}
	return questions[0], nil
}

// inputsOf returns the objects in a text.
func inputsOf(what, text string) ([]objects.Input, error) {
	inputs, err := objects.From(ObjectFile, strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(inputs) == 0 {
		return nil, errors.New(what + ": there is none")
	}
	return inputs, nil
}

// Word returns the word of decide and explain for what an explained rule did.
func Word(r *explain.Rule) string { return text.Word(r.Outcome, r.Checks) }

// ValueText returns a value as usher explain prints it.
func ValueText(value any, absent bool) string { return text.Value(value, absent) }

// Diff returns what policies changed, as a unified diff of YAML; empty if that is nothing.
func (j *Judgement) Diff() (string, error) {
	if !j.changed() {
		return "", nil
	}
	return changesOf(j.before, j.Result, cli.Palette{})
}

// Changed returns the object as policies have changed it, as YAML; empty if they have not.
func (j *Judgement) Changed() (string, error) {
	if !j.changed() {
		return "", nil
	}
	text, err := printable.YAML(j.Result)
	if err != nil {
		return "", fmt.Errorf("encode object: %w", err)
	}
	return string(text), nil
}

// Verdict is the word for what was decided: denied, warned, changed or allowed.
func (j *Judgement) Verdict() string {
	switch {
	case !j.Allowed:
		return "denied"
	case len(j.Warnings) > 0:
		return "warned"
	case j.changed():
		return "changed"
	}
	return "allowed"
}
