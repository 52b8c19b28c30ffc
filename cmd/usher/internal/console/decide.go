package console

import (
	"cmp"
	"context"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/authorize"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source/dir"
)

// A Decision is what policies do with a request.
type Decision struct {
	// Verdict is allowed, changed, warned or denied; failed, if the policies or the request cannot be used; no opinion of
	// authorization; empty if there is nothing to decide.
	Verdict string `json:"verdict"`
	Message string `json:"message"`
	Code    int    `json:"code,omitempty"`
	// Phase is the one that denied the request.
	Phase    string   `json:"phase,omitempty"`
	Warnings []string `json:"warnings"`
	// Diff is what policies changed, and Object the result; empty if that is nothing.
	Diff     string      `json:"diff"`
	Object   string      `json:"object"`
	Findings []Finding   `json:"findings"`
	Trace    []TraceRule `json:"trace"`
	Problems []Problem   `json:"problems"`
	// Missing are facts that policies read and nobody has given.
	Missing []string `json:"missing"`
	// Text is what usher decide prints.
	Text string `json:"text"`
	Took string `json:"took"`
}

// A Finding is what a rule, or a part of one, has to say.
type Finding struct {
	Policy  string `json:"policy"`
	Rule    string `json:"rule"`
	Action  string `json:"action"`
	Message string `json:"message"`
	// Field is the one of the object that it is about.
	Field string `json:"field"`
	// Excused says which exemption applied.
	Excused string `json:"excused"`
	Line    int    `json:"line"`
}

// A TraceRule is what a rule did.
type TraceRule struct {
	Phase   string `json:"phase"`
	Policy  string `json:"policy"`
	Rule    string `json:"rule"`
	Field   string `json:"field"`
	Matched bool   `json:"matched"`
	Outcome string `json:"outcome"`
	// Reason is its message, or the clause that did not match; Clause is the one that did.
	Reason   string       `json:"reason"`
	Clause   string       `json:"clause"`
	Values   []TraceValue `json:"values"`
	Duration string       `json:"duration"`
	// Cost is the time that it took, in nanoseconds, and Budget the time that a server lets it take.
	Cost   int64 `json:"cost"`
	Budget int64 `json:"budget"`
	Line   int   `json:"line"`
}

// A TraceValue is an expression, or a part of one, with its value.
type TraceValue struct {
	// Depth says of which expression it is a part.
	Depth      int    `json:"depth"`
	Expression string `json:"expression"`
	Value      string `json:"value"`
	Error      string `json:"error,omitempty"`
}

// A Problem is something that is wrong with a policy.
type Problem struct {
	Policy   string `json:"policy"`
	Message  string `json:"message"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
}

func attemptOf(s *console.State) *try.Attempt {
	return &try.Attempt{
		Policies: s.Policies, Object: s.Object, OldObject: s.OldObject, Facts: s.Facts,
		Operation: s.Operation, Resource: s.Resource, Subresource: s.Subresource, Namespace: s.Namespace, Name: s.Name, DryRun: s.DryRun,
		User: usher.User{Name: s.User.Name, UID: s.User.UID, Groups: s.User.Groups, Extra: s.User.Extra},
	}
}

func newDecision() *Decision {
	return &Decision{Warnings: []string{}, Findings: []Finding{}, Trace: []TraceRule{}, Problems: []Problem{}, Missing: []string{}}
}

func (b *bench) decide(ctx context.Context, in *console.State) (*Decision, error) {
	d, start := newDecision(), time.Now()
	blank := func(text string) bool { return strings.TrimSpace(text) == "" }
	if blank(in.Policies) || blank(in.Authorization) && blank(in.Object) && blank(in.OldObject) {
		return d, nil
	}
	if !blank(in.Authorization) {
		err := b.authorize(ctx, in, d)
		d.Took = time.Since(start).Round(time.Microsecond).String()
		return d, err
	}
	result, err := b.attempts.Decide(ctx, attemptOf(in))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		d.Verdict, d.Message = "failed", printable.Line(err.Error())
		return d, nil
	}
	if len(result.Problems) > 0 {
		d.fail(result.Problems)
		return d, nil
	}
	if err := d.judged(result); err != nil {
		return nil, err
	}
	d.Took = time.Since(start).Round(time.Microsecond).String()
	return d, nil
}

// fail says that the policies have errors.
func (d *Decision) fail(problems []rule.Problem) {
	d.Verdict, d.Message = "failed", "the policies have errors: correct them first"
	for i := range problems {
		d.problem(&problems[i])
	}
}

func (d *Decision) problem(p *rule.Problem) {
	message := cmp.Or(p.What, "unusable")
	if p.Field != "" {
		message = p.Field + ": " + message
	}
	if p.Do != "" {
		message += "; " + p.Do
	}
	d.Problems = append(d.Problems, Problem{name(p.Policy), printable.Line(message), p.Line, p.Column, string(p.Severity)})
}

func name(ref usher.PolicyRef) string {
	if ref == (usher.PolicyRef{}) {
		return ""
	}
	return ref.String()
}

func (d *Decision) judged(result *try.Result) error {
	j := &result.Judgement
	d.Verdict, d.Message, d.Code, d.Phase = j.Verdict(), cmp.Or(j.Message, j.Reason), int(j.Code), string(j.Phase)
	d.Warnings, d.Missing, d.Text = append(d.Warnings, j.Warnings...), append(d.Missing, j.MissingFacts...), result.Text
	var err error
	if d.Diff, err = j.Diff(); err != nil {
		return err
	}
	if d.Object, err = j.Changed(); err != nil {
		return err
	}
	of := lines(result.Set)
	for _, c := range result.Set.Compiled() {
		for i := range c.Problems {
			d.problem(&c.Problems[i])
		}
	}
	for i := range j.Rules {
		d.found(&j.Rules[i].Finding, j.Rules[i].Error, of)
	}
	for i := range result.Explained {
		for n := range result.Explained[i].Rules {
			d.trace(&result.Explained[i], &result.Explained[i].Rules[n], of)
		}
	}
	return nil
}

// lines returns what knows the lines of fields of policies.
func lines(set policies.Set) func(usher.PolicyRef, string) int {
	known := map[usher.PolicyRef]*compile.Compiled{}
	compiled := set.Compiled()
	for i := range compiled {
		known[compiled[i].Ref] = &compiled[i]
	}
	return func(ref usher.PolicyRef, field string) int {
		if c := known[ref]; c != nil {
			return c.Policy.Position(field).Line
		}
		return 0
	}
}

// found adds what a rule has to say.
func (d *Decision) found(f *usher.Finding, failure string, line func(usher.PolicyRef, string) int) {
	if f.Policy == (usher.PolicyRef{}) {
		return
	}
	excused := ""
	for _, x := range f.Exemptions {
		excused = x.PolicyRef.String() + ": " + x.Reason
	}
	for _, c := range f.Checks {
		actions := make([]string, len(c.Actions))
		for i, action := range c.Actions {
			actions[i] = string(action)
		}
		d.Findings = append(d.Findings, Finding{name(f.Policy), cmp.Or(c.Validation, c.Name), strings.Join(actions, ", "), c.Message, c.Field, excused, line(f.Policy, c.Name)})
	}
	if len(f.Checks) == 0 && (f.Outcome == usher.Rejected || f.Outcome == usher.Failed || excused != "") {
		d.Findings = append(d.Findings, Finding{name(f.Policy), f.Rule, string(f.Outcome), cmp.Or(failure, f.Message), "", excused, line(f.Policy, f.Rule)})
	}
}

// longest is how long servers let a rule run.
const longest = time.Second

func (d *Decision) trace(e *explain.Explanation, r *explain.Rule, line func(usher.PolicyRef, string) int) {
	if r.Policy == (usher.PolicyRef{}) {
		return
	}
	t := TraceRule{
		Phase: string(e.Phase), Policy: name(r.Policy), Rule: r.Name, Matched: r.Matched, Outcome: cmp.Or(try.Word(r), "no match"),
		Reason: cmp.Or(r.Error, r.Message, r.Unrun), Clause: r.Clause, Values: []TraceValue{}, Cost: int64(r.Took), Budget: int64(longest), Line: line(r.Policy, r.Name),
	}
	switch {
	case !r.Matched:
		t.Reason = r.Clause
	case r.Outcome == "":
		t.Outcome = "not run"
	}
	if r.Took > 0 {
		t.Duration = r.Took.String()
	}
	for _, c := range r.Checks {
		t.Field = cmp.Or(t.Field, c.Field)
	}
	for i := range r.Steps {
		t.step(&r.Steps[i])
	}
	d.Trace = append(d.Trace, t)
}

// mostValues limits the values of a rule.
const mostValues = 300

func (t *TraceRule) step(s *explain.Step) {
	if s.Reading != nil {
		for _, v := range s.Reading.Values {
			t.add(TraceValue{0, v.Name, try.ValueText(v.Value, v.Absent), ""})
		}
		for i := range s.Reading.Expressions {
			t.expression(&s.Reading.Expressions[i], 0)
		}
		if s.Reading.Condition != "" && s.Error == "" {
			t.add(TraceValue{0, s.Reading.Condition, try.ValueText(s.Reading.Holds, false), ""})
		}
	}
	if s.Error != "" {
		t.add(TraceValue{0, s.Name, "", s.Error})
	}
}

func (t *TraceRule) add(v TraceValue) {
	if len(t.Values) < mostValues {
		t.Values = append(t.Values, v)
	}
}

func (t *TraceRule) expression(e *rule.Expression, depth int) {
	text := printable.CutRunes(e.Text, 400)
	switch {
	case e.Unevaluated:
		t.add(TraceValue{depth, text, "not evaluated", ""})
		return
	case e.Error != "":
		t.add(TraceValue{depth, text, "", e.Error})
	default:
		t.add(TraceValue{depth, text, try.ValueText(e.Value, e.Absent), ""})
	}
	for i := range e.Parts {
		t.expression(&e.Parts[i], depth+1)
	}
}

// authorize decides a request to authorize, as usher authz can-i does.
func (b *bench) authorize(ctx context.Context, in *console.State, d *Decision) error {
	_, problems, err := b.attempts.Compile(ctx, in.Policies)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		d.fail(problems)
		return nil
	}
	a := &authorize.Attempt{Policies: dir.Parse(try.PoliciesFile, []byte(in.Policies)).Policies, Facts: in.Facts, Spec: in.Authorization}
	answer, err := policies.Within(ctx, b.limits.Timeout(), "authorize it", func(ctx context.Context) (*authorize.Answer, error) { return authorize.Try(ctx, a) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		d.Verdict, d.Message = "failed", printable.Line(err.Error())
		return nil
	}
	words := map[string]string{string(usher.Allow): "allowed", string(usher.Deny): "denied"}
	d.Verdict, d.Message, d.Text = cmp.Or(words[answer.Verdict], answer.Verdict), answer.Reason, answer.Text
	d.Warnings = append(d.Warnings, answer.Warnings...)
	for _, s := range answer.Steps {
		t := TraceRule{Phase: string(usher.Authorize), Policy: s.Policy, Rule: s.Rule, Matched: !s.Nearly, Outcome: s.Outcome, Reason: s.Why, Values: []TraceValue{}, Budget: int64(longest)}
		for _, condition := range s.Conditions {
			text, value, _ := strings.Cut(condition, ": ")
			t.add(TraceValue{0, text, value, ""})
		}
		d.Trace = append(d.Trace, t)
	}
	return nil
}
