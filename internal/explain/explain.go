// Package explain explains a decision: for each rule, whether it matched and by which clause, what
// its programs read, what it returned and changed, and what it cost.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
	"github.com/usher-dev/usher/internal/stall"
)

// An Explanation is one decision, rule by rule.
type Explanation struct {
	Phase usher.Phase `json:"phase"`
	// Entry is the name of the webhook entry that was called, or would be, and Kind the version and
	// kind of the object in it. Requested is the version that the client used, if it is another
	// one.
	Entry     string        `json:"entry"`
	Kind      string        `json:"kind,omitempty"`
	Requested string        `json:"requested,omitempty"`
	Verdict   usher.Verdict `json:"verdict"`
	Code      int32         `json:"code,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Message   string        `json:"message,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
	Rules     []Rule        `json:"rules"`
}

// A Rule is one rule's part in a decision.
type Rule struct {
	// Policy is zero for built-in rules.
	Policy  usher.PolicyRef `json:"policy,omitzero"`
	Name    string          `json:"rule"`
	Matched bool            `json:"matched"`
	// PodOf names the workload, such as Deployment shop/web, if the rule is for the pod that it would
	// make. Unmutated, unless empty, says why that pod is as in the template, without the changes of
	// policies.
	PodOf     string `json:"podOf,omitempty"`
	Unmutated string `json:"unmutated,omitempty"`
	// Clause is the one by which the rule matched, or the one that did not match, with the values
	// of the object.
	Clause string `json:"clause"`
	// Outcome is empty for a rule that did not match, or was not run: see Unrun.
	Outcome usher.Outcome `json:"outcome,omitempty"`
	Unrun   string        `json:"unrun,omitempty"`
	Message string        `json:"message,omitempty"`
	Error   string        `json:"error,omitempty"`
	Ignored bool          `json:"ignored,omitempty"`
	// Checks are the parts of the rule that had something to say.
	Checks []usher.Check `json:"checks,omitempty"`
	// Exemptions are those that applied, NotExempt those that did not, with the reasons.
	Exemptions []usher.Exemption `json:"exemptions,omitempty"`
	NotExempt  []usher.NotExempt `json:"notExempt,omitempty"`
	Steps      []Step            `json:"steps,omitempty"`
	Patch      usher.Patch       `json:"patch,omitempty"`
	// Took is how long the rule ran for this decision.
	Took time.Duration `json:"took,omitempty"`
	// Cost is nil unless it was measured.
	Cost *Cost `json:"cost,omitempty"`
}

// A Step is one program of a rule.
type Step struct {
	Name    string `json:"name"`
	Program string `json:"program"`
	// Reading is what the program read, nil if unknown. Error is the reason.
	Reading *rule.Reading `json:"reading,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// Options select details beyond the decision. The zero value selects nothing that takes long.
type Options struct {
	// Facts, if not nil, resolves the facts that programs need to report what they read.
	Facts fact.Resolver
	// Measure runs each rule that matched repeatedly to measure its cost.
	Measure bool
}

// Of explains the decision d about r by an engine with these rules.
//
// It withholds values of objects that hold credentials, such as Secrets: if r is about one, all
// values; if a rule has read one as a fact, the values, texts and patch of that rule and, once it
// has changed the object, of all rules after it.
func Of(ctx context.Context, rules []rule.Rule, r *usher.Request, d usher.Decision, o Options) (Explanation, error) {
	e := Explanation{
		Phase: r.Phase, Verdict: d.Verdict, Code: d.Code, Reason: d.Reason, Message: d.Message, Warnings: d.Warnings, Rules: []Rule{},
	}
	e.Entry = cmp.Or(r.Entry, rule.EntryOf(r).String())
	e.Kind = kindText(r.Kind)
	if r.Requested != r.Kind {
		e.Requested = kindText(r.Requested)
	}
	x := &explaining{rules: rules, request: r, options: o, findings: slices.Clone(d.Findings), tainted: fact.Confidential(r.Kind.Kind)}
	if x.tainted || slices.ContainsFunc(d.Findings, func(f usher.Finding) bool { return f.Confidential }) {
		e.withholdSummary()
	}
	var err error
	if x.tree, err = r.Target().Tree(); err != nil {
		return e, err
	}
	if r.Object != nil {
		if x.old, err = r.OldObject.Tree(); err != nil {
			return e, err
		}
	}
	work := stall.Of(ctx)
	for _, pass := range passes(rules, r.Phase) {
		subject := rule.TargetOf(r, x.tree)
		for i := range rules {
			if rules[i].Phase == r.Phase && rules[i].Pass == pass {
				work.At(rules[i].Policy.String() + ": " + rules[i].Name)
				e.Rules = append(e.Rules, x.rule(ctx, &rules[i], &subject))
			}
		}
		again := rule.TargetOf(r, x.tree)
		for i := range rules {
			// What is left are the findings of rules that ran once more.
			if rules[i].Reinvoked && rules[i].Pass == pass && x.finding(&rules[i]) >= 0 {
				e.Rules = append(e.Rules, x.rule(ctx, &rules[i], &again))
			}
		}
	}
	return e, nil
}

// kindText is the version and the kind; nothing for none.
func kindText(kind schema.GroupVersionKind) string {
	if kind.Empty() {
		return ""
	}
	return kind.GroupVersion().String() + " " + kind.Kind
}

// passes are those of a phase, in order.
func passes(rules []rule.Rule, phase usher.Phase) []int {
	var all []int
	for i := range rules {
		if rules[i].Phase == phase && !slices.Contains(all, rules[i].Pass) {
			all = append(all, rules[i].Pass)
		}
	}
	slices.Sort(all)
	return all
}

// An explaining follows a decision through its rules.
type explaining struct {
	rules   []rule.Rule
	request *usher.Request
	options Options
	// findings are those of rules that have not had their turn.
	findings []usher.Finding
	// tree is the object as the rules so far have left it.
	tree, old map[string]any
	ended     bool
	// tainted means that the object holds credentials.
	tainted bool
	// pod is what rules for the pods of workloads get, nil until one of them matches.
	pod *subject
}

// A subject is what the programs of a rule get.
type subject struct {
	request     *usher.Request
	object, old map[string]any
	workload    *rule.Workload
}

func (x *explaining) rule(ctx context.Context, r *rule.Rule, s *rule.Target) Rule {
	told := Rule{Policy: r.Policy, Name: r.Name}
	if !r.Match.Matches(s) {
		told.Clause = r.Match.Mismatch(s)
		if x.tainted {
			told.withhold()
		}
		return told
	}
	told.Matched, told.Clause = true, r.Match.Hit(s)
	var confidential bool
	of := &subject{request: x.request, object: x.tree, old: x.old}
	if r.Pod != nil {
		of = x.projected(ctx)
	}
	if of.workload != nil {
		told.PodOf, told.Unmutated = of.workload.String(), of.workload.Unchanged
	}
	told.Steps, confidential = x.steps(ctx, r, of)
	if x.options.Measure {
		told.Cost = measure(ctx, r, x.at(), x.options.Facts)
	}
	i := x.finding(r)
	switch {
	case i >= 0:
		x.follow(&told, x.findings[i])
		confidential = confidential || x.findings[i].Confidential
		x.findings = slices.Delete(x.findings, i, i+1)
	case x.ended:
		told.Unrun = "the decision was reached"
	case r.Policy == usher.PolicyRef{}:
		told.Outcome = usher.Passed
	default:
		told.Unrun = "an earlier rule of the policy had ended it"
	}
	x.tainted = x.tainted || confidential && len(told.Patch) > 0
	if x.tainted || confidential {
		told.withhold()
	}
	return told
}

// finding returns the index of the first finding of a rule that is left, -1 if there is none.
func (x *explaining) finding(r *rule.Rule) int {
	return slices.IndexFunc(x.findings, func(f usher.Finding) bool { return f.Policy == r.Policy && f.Rule == r.Name })
}

// follow records the finding of a rule, and applies its patch.
func (x *explaining) follow(told *Rule, f usher.Finding) {
	told.Outcome, told.Message, told.Ignored, told.Patch, told.Took = f.Outcome, f.Message, f.Ignored, f.Patch, f.Took
	told.Checks, told.Exemptions, told.NotExempt = f.Checks, f.Exemptions, f.NotExempt
	told.PodOf = cmp.Or(f.PodOf, told.PodOf)
	if f.Err != nil {
		told.Error = f.Err.Error()
	}
	if x.request.Phase != usher.Mutate {
		return
	}
	x.ended = f.Denies()
	// It has been applied before.
	if tree, _, err := jsonpatch.Apply(x.tree, f.Patch); err == nil {
		x.tree = tree
	}
}

// at is the request with the object as it is now.
func (x *explaining) at() *usher.Request {
	now := *x.request
	if now.Object != nil {
		now.Object = usher.TreeObject(x.tree)
	}
	return &now
}

// projected is the pod that the workload of the request would make. It has no request if the pod is
// not judged, which the finding of the rule says.
func (x *explaining) projected(ctx context.Context) *subject {
	if x.pod != nil {
		return x.pod
	}
	x.pod = &subject{}
	all := engine.New(index.New(x.rules), x.options.Facts, engine.Options{FailurePolicy: usher.Fail})
	request, workload, _, err := all.Project(ctx, x.request)
	if err != nil || request == nil {
		return x.pod
	}
	object, err := request.Object.Tree()
	if err != nil {
		return x.pod
	}
	x.pod = &subject{request: request, object: object, workload: workload}
	return x.pod
}

// maxFacts limits the facts that a program may need to report what it reads.
const maxFacts = 16

// steps are the programs of a rule, with what they read, which may be confidential.
func (x *explaining) steps(ctx context.Context, r *rule.Rule, of *subject) (steps []Step, confidential bool) {
	steps = make([]Step, len(r.Steps))
	known, allowance := &fact.Known{}, allowanceFor(r)
	for i, s := range r.Steps {
		steps[i] = Step{Name: s.Name, Program: s.Program.String()}
		explainer, ok := s.Program.(rule.Explainer)
		if !ok || of.request == nil {
			continue
		}
		reading, err := x.read(ctx, explainer, &rule.Input{
			Request: of.request, Object: of.object, OldObject: of.old, Workload: of.workload, Facts: known, Allowance: allowance,
		})
		if len(reading.Values) > 0 || len(reading.Expressions) > 0 || reading.Condition != "" {
			steps[i].Reading = &reading
		}
		if err != nil {
			steps[i].Error = err.Error()
		}
	}
	return steps, known.Disclosed()
}

// allowanceFor returns what the programs of a rule may take to be explained. That is more than to decide,
// since every part is evaluated again, and its value recorded.
func allowanceFor(r *rule.Rule) *allowance.Allowance {
	const more = 4
	if r.Policy.Namespace != "" {
		return allowance.Explaining(more*allowance.NamespaceTime, more*allowance.NamespaceMemory)
	}
	return allowance.Explaining(allowance.PolicyTime, allowance.PolicyMemory)
}

// read asks a program what it reads, again after each fact that it lacks.
func (x *explaining) read(ctx context.Context, p rule.Explainer, in *rule.Input) (rule.Reading, error) {
	for range maxFacts {
		if ctx.Err() != nil {
			return rule.Reading{}, fmt.Errorf("explain program: %w", context.Cause(ctx))
		}
		reading, err := p.Explain(in)
		missing, ok := errors.AsType[*fact.Missing](err)
		if !ok || x.options.Facts == nil {
			return reading, err
		}
		if x.request.DryRun && !missing.Ref.Safe() {
			return reading, err
		}
		value, err := x.options.Facts.Resolve(ctx, missing.Ref)
		in.Facts.Set(missing.Ref, value, err)
	}
	return p.Explain(in)
}
