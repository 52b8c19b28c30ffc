package judge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/withhold"
)

// A Judgement is the results of one policy for one object.
type Judgement struct {
	Policy usher.PolicyRef
	// Results are those that are neither passes nor skipped because a rule cannot be judged. They do
	// not name the object.
	Results []result.Result
	// Pass counts the rules that have no objection, and Skip those that cannot be judged: see
	// [Plan.Unjudged].
	Pass, Skip int
	// Facts are those that the policy used: if one of them changes, its results may change.
	Facts []fact.Ref
}

// Limits of the results of one policy for one object: the authors of policies and params decide how
// large they are, and an audit keeps them for all objects.
const (
	// maxMessage limits the message of a result, in bytes.
	maxMessage = 1024
	maxResults = 100
)

// Unjudged returns the rules that are for objects of the kind and do not judge them, with the
// reasons, in order of evaluation.
func (p *Plan) Unjudged() []Unjudged {
	var all []Unjudged
	for i := range p.judge.rules {
		r := &p.judge.rules[i]
		if a := p.judge.approach(r, p.kind); a.unjudged != "" && slices.Contains(p.policies, r.Policy) {
			all = append(all, Unjudged{Policy: r.Policy, Rule: r.Name, Reason: a.unjudged})
		}
	}
	return all
}

// Judge judges an object, of which the values at [Plan.Paths] suffice. Only some policies judge it,
// or all if some is nil. Judgements are in order of evaluation; policies that are not for the object
// have none. The error is that of ctx: then the judgements are those of the policies that had judged the
// object before it ended, also of those that are not for it.
func (p *Plan) Judge(ctx context.Context, object map[string]any, some []usher.PolicyRef) ([]Judgement, error) {
	if some != nil {
		return p.part(some).all(ctx, object)
	}
	return p.all(ctx, object)
}

func (p *Plan) all(ctx context.Context, object map[string]any) ([]Judgement, error) {
	used := &usage{}
	if slices.Contains(p.factual, true) {
		ctx = context.WithValue(ctx, usageKey{}, used)
	}
	request := p.request(object)
	c := collector{plan: p, judgements: make([]Judgement, len(p.policies)), unsent: p.unsent(request)}
	for i := range p.stages {
		stage, r := &p.stages[i], *request
		r.Phase, r.Operation = stage.phase, stage.operation
		if r.Operation == usher.Update {
			r.OldObject = r.Object
		}
		c.begin(stage, &r)
		err := stage.engine.Each(ctx, &r, c.add)
		if err == nil && ctx.Err() != nil {
			// Rules that were not reached have failed; their results may differ the next time.
			err = fmt.Errorf("judge object: %w", context.Cause(ctx))
		}
		if err != nil {
			return c.result(used, p.stages[i:]), err
		}
	}
	return c.result(used, nil), nil
}

// request returns the request that an object is judged as, without phase and operation.
func (p *Plan) request(object map[string]any) *usher.Request {
	r := probeOf(p.kind)
	apiVersion := r.Kind.GroupVersion().String()
	if object["apiVersion"] != apiVersion || object["kind"] != p.kind.Kind {
		object = maps.Clone(object)
		if object == nil {
			object = map[string]any{}
		}
		object["apiVersion"], object["kind"] = apiVersion, p.kind.Kind
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	p.place(&r, namespace, name)
	r.Object = usher.TreeObject(object)
	return &r
}

// place has a request be about an object with a name and a namespace, of which either may not be known.
func (p *Plan) place(r *usher.Request, namespace, name string) {
	r.Name = name
	switch {
	case p.kind.Namespaced:
		r.Namespace = cmp.Or(namespace, r.Namespace)
	case isNamespace(p.kind):
		r.Namespace = cmp.Or(name, r.Namespace)
	}
}

// unsent returns why API servers do not send the creation of an object to webhooks; "" if they may.
func (p *Plan) unsent(r *usher.Request) string {
	if p.judge.options.Unsent == nil {
		return ""
	}
	return p.judge.options.Unsent(&usher.Request{Kind: r.Kind, Resource: r.Resource, Namespace: r.Namespace, Operation: usher.Create})
}

// PathsIn returns paths of an object with a namespace and a name, and more if its namespace decides that API servers do not
// send it: then it is judged apart from others.
func (p *Plan) PathsIn(paths *usher.Paths, namespace, name string) *usher.Paths {
	all := probeOf(p.kind)
	if p.judge.options.Unsent == nil || p.unsent(&all) != "" {
		return paths
	}
	one := all
	p.place(&one, namespace, name)
	if p.unsent(&one) == "" {
		return paths
	}
	apart := &Plan{kind: p.kind}
	apart.paths.Merge(paths)
	apart.readNamespace()
	return &apart.paths
}

// A collector makes judgements of an object from the findings of stages.
type collector struct {
	plan       *Plan
	judgements []Judgement
	// unsent is why API servers do not send the object to webhooks; "" if they may.
	unsent string
	// last is the index of the policy of the last finding.
	last int
	// stage is the one whose findings are added, and object the object as the rules before have left
	// it; bothWays says that some rules judge objects as created or as updated.
	stage    *stage
	object   map[string]any
	bothWays bool
	// created are the rules that have judged the object as one that is created.
	created map[ruleKey]bool
}

// of returns the judgement of the policy of a finding.
func (c *collector) of(ref usher.PolicyRef) *Judgement {
	if c.plan.policies[c.last] != ref {
		c.last++
		if c.last >= len(c.judgements) || c.plan.policies[c.last] != ref {
			c.last = max(slices.Index(c.plan.policies, ref), 0)
		}
	}
	return &c.judgements[c.last]
}

// begin begins a stage.
func (c *collector) begin(stage *stage, r *usher.Request) {
	c.stage, c.bothWays = stage, c.plan.bothWays(stage.phase)
	c.object, _ = r.Object.Tree()
}

// add adds a finding of the stage.
func (c *collector) add(f *usher.Finding) {
	if c.bothWays {
		at := ruleKey{f.Policy, f.Rule}
		if c.stage.operation == usher.Update && c.created[at] {
			return
		}
		if c.created == nil {
			c.created = map[ruleKey]bool{}
		}
		c.created[at] = true
	}
	j := c.of(f.Policy)
	if f.Outcome == usher.Skipped {
		if c.plan.unjudged[ruleKey{f.Policy, f.Rule}] {
			j.Skip++
		}
		return
	}
	if !c.addResults(j, f) {
		j.Pass++
	}
}

// bothWays reports whether there are rules that judge objects as created or as updated.
func (p *Plan) bothWays(phase usher.Phase) bool {
	return slices.ContainsFunc(p.stages, func(s stage) bool { return s.phase == phase && s.operation == usher.Update })
}

// addResults adds the results of a finding, and reports whether there are any: otherwise the object
// passes.
func (c *collector) addResults(j *Judgement, f *usher.Finding) bool {
	for i := range f.Exemptions {
		c.addExempted(j, f, f.Exemptions[i])
	}
	if f.Outcome == usher.Exempted {
		return true
	}
	for i := range f.Checks {
		check := &f.Checks[i]
		message := check.Message
		if check.PodsDenied {
			message = result.OfPods + message
		}
		c.addResult(j, f, &result.Result{
			Rule: check.Name, Validation: check.Validation, Status: statusOf(check), Message: message, Field: check.Field,
			Severity: check.Severity, Actions: check.Actions,
		})
	}
	switch {
	case f.Outcome == usher.Failed && !slices.ContainsFunc(f.Checks, func(part usher.Check) bool { return part.Failed }):
		c.addResult(j, f, &result.Result{Rule: f.Rule, Status: result.Error, Message: f.Err.Error()})
	case f.Outcome == usher.Changed:
		fields, after := changes(c.object, f.Patch)
		c.object = after
		if len(fields) > 0 {
			c.addResult(j, f, &result.Result{Rule: f.Rule, Status: result.Warn, Message: wouldChange(fields), Field: fields[0]})
		}
		return len(fields)+len(f.Exemptions)+len(f.Checks) > 0
	case f.Outcome != usher.Passed && len(f.Checks) == 0:
		c.addResult(j, f, &result.Result{
			Rule: f.Rule, Status: result.Fail, Message: cmp.Or(f.Message, "denied without a message"), Actions: []usher.Action{usher.ActDeny},
		})
	}
	return f.Outcome != usher.Passed || len(f.Exemptions)+len(f.Checks) > 0
}

// addExempted adds a result for each part of a rule from which an exemption exempts the object.
func (c *collector) addExempted(j *Judgement, f *usher.Finding, x usher.Exemption) {
	covered := x.Checks
	x.Checks = nil
	exempt := result.Result{Rule: f.Rule, Status: result.Skip, Message: "exempt: " + x.Reason, Exemption: &x, WithoutExemption: result.Warn}
	if len(covered) == 0 {
		c.addResult(j, f, &exempt)
	}
	for i := range covered {
		check, one := &covered[i], exempt
		one.Rule, one.Validation, one.Field, one.Severity = check.Name, check.Validation, check.Field, check.Severity
		one.WithoutExemption, one.Actions = statusOf(check), check.Actions
		if check.PodsDenied {
			// Nothing else tells it from a result that is only recorded: a workload has no such action.
			one.Actions = nil
		}
		c.addResult(j, f, &one)
	}
}

// statusOf returns the status of a part of a rule.
func statusOf(c *usher.Check) result.Status {
	switch {
	case c.Failed:
		return result.Error
	case len(c.Actions) == 1 && c.Actions[0] == usher.ActWarn && !c.PodsDenied:
		return result.Warn
	}
	return result.Fail
}

// addResult adds a result, unless another binding has the same one.
func (c *collector) addResult(j *Judgement, f *usher.Finding, r *result.Result) {
	p := c.plan.judge.policies[f.Policy]
	r.Policy, r.Category = f.Policy, p.category
	if r.Severity == "" {
		r.Severity = p.severity
	}
	if r.Exemption == nil && f.Outcome != usher.Changed && (f.Confidential || fact.Confidential(c.plan.kind.Kind)) {
		r.Message = withhold.Secret
	}
	if c.unsent != "" && r.Exemption == nil && r.Status != result.Error && !strings.HasSuffix(f.Policy.Kind, "AdmissionPolicy") {
		*r = result.Result{
			Policy: r.Policy, Rule: f.Rule, Status: result.Skip, Message: notSent + c.unsent, Category: r.Category, Severity: p.severity,
		}
	}
	r.Message = printable.Cut(r.Message, maxMessage)
	for i := range j.Results {
		other := &j.Results[i]
		if other.Rule == r.Rule && other.Message == r.Message && other.Field == r.Field && sameExemption(other, r) {
			other.Actions = union(other.Actions, r.Actions)
			if worse(r.WithoutExemption, other.WithoutExemption) {
				other.WithoutExemption = r.WithoutExemption
			}
			if worse(r.Status, other.Status) {
				other.Status = r.Status
			}
			return
		}
	}
	switch n := len(j.Results); {
	case n == maxResults:
		return
	case n == maxResults-1:
		*r = result.Result{Policy: r.Policy, Rule: f.Rule, Status: r.Status, Category: r.Category, Severity: r.Severity, Message: leftOut}
	}
	j.Results = append(j.Results, *r)
}

func sameExemption(a, b *result.Result) bool {
	if a.Exemption == nil || b.Exemption == nil {
		return a.Exemption == b.Exemption
	}
	return a.Exemption.PolicyRef == b.Exemption.PolicyRef
}

// notSent begins the message of a result about an object that API servers do not send.
const notSent = "API servers do not send it to Usher: "

// leftOut is the message of the last result, if there are too many.
const leftOut = "the policy has more than 100 results for the object: the others are left out"

// union returns all actions of two lists, each once, in the order Deny, Warn, Audit.
func union(a, b []usher.Action) []usher.Action {
	var all []usher.Action
	for _, action := range []usher.Action{usher.ActDeny, usher.ActWarn, usher.ActAudit} {
		if slices.Contains(a, action) || slices.Contains(b, action) {
			all = append(all, action)
		}
	}
	return all
}

// worse reports whether a status is worse than another one.
func worse(a, b result.Status) bool {
	return slices.Index(result.Statuses(), a) < slices.Index(result.Statuses(), b)
}

// result returns the judgements that are not empty, with the facts that were used. If stages were left out,
// it returns those of policies without rules in the rest, also empty ones.
func (c *collector) result(used *usage, rest []stage) []Judgement {
	all := c.judgements[:0]
	for i, ref := range c.plan.policies {
		j := c.judgements[i]
		if c.plan.factual[i] {
			j.Facts = used.all()
		}
		if rest == nil && len(j.Results)+j.Pass+j.Skip+len(j.Facts) == 0 || slices.ContainsFunc(rest, func(left stage) bool {
			return slices.ContainsFunc(left.rules, func(r rule.Rule) bool { return r.Policy == ref && r.Phase == left.phase })
		}) {
			continue
		}
		j.Policy = ref
		all = append(all, j)
	}
	return all
}

// maxFields is how many fields a result names.
const maxFields = 5

func wouldChange(fields []string) string {
	more := ""
	if n := len(fields) - maxFields; n > 0 {
		fields, more = fields[:maxFields], fmt.Sprintf(", and %d more", n)
	}
	return "would change " + strings.Join(fields, ", ") + more
}
