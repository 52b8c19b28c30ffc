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
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/withhold"
)

// A Said is what one policy says about an object.
type Said struct {
	Policy usher.PolicyRef
	// Results are those that are neither passes nor skipped because a rule cannot be judged. They do
	// not name the object.
	Results []result.Result
	// Pass counts the rules that have no objection, and Skip those that cannot be judged: see
	// [Plan.Unjudged].
	Pass, Skip int
	// Read are facts: if one of them changes, the policy may say something else.
	Read []fact.Ref
}

// Limits of what one policy says about one object: who writes policies and params decides how much
// that is, and an audit keeps it for all objects.
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
// or all if some is nil. What is said is in order of evaluation; policies that are not for the object
// say nothing. The error is that of ctx: then what is said is that of the policies that had judged the
// object before it ended, also of those that are not for it.
func (p *Plan) Judge(ctx context.Context, object map[string]any, some []usher.PolicyRef) ([]Said, error) {
	if some != nil {
		return p.part(some).all(ctx, object)
	}
	return p.all(ctx, object)
}

func (p *Plan) all(ctx context.Context, object map[string]any) ([]Said, error) {
	used := &usage{}
	if slices.Contains(p.factual, true) {
		ctx = context.WithValue(ctx, usageKey{}, used)
	}
	s := sayings{plan: p, said: make([]Said, len(p.policies))}
	request := p.request(object)
	for i := range p.stages {
		stage, r := &p.stages[i], *request
		r.Phase, r.Operation = stage.phase, stage.operation
		if r.Operation == usher.Update {
			r.OldObject = r.Object
		}
		s.begin(stage, &r)
		err := stage.engine.Each(ctx, &r, s.hear)
		if err == nil && ctx.Err() != nil {
			// Rules that were not reached have failed; they may have something else to say the next time.
			err = fmt.Errorf("judge object: %w", context.Cause(ctx))
		}
		if err != nil {
			return s.before(used, p.stages[i:]), err
		}
	}
	return s.result(used), nil
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
	r.Name, _ = metadata["name"].(string)
	switch namespace, _ := metadata["namespace"].(string); {
	case p.kind.Namespaced:
		r.Namespace = cmp.Or(namespace, r.Namespace)
	case isNamespace(p.kind):
		r.Namespace = cmp.Or(r.Name, r.Namespace)
	}
	r.Object = usher.TreeObject(object)
	return &r
}

// sayings gathers what policies say about one object.
type sayings struct {
	plan *Plan
	said []Said
	// last is the index of the policy of the last finding.
	last int
	// stage is the one whose findings are heard, and object the object as the rules before have left
	// it; twice says that some rules judge objects as created or as updated.
	stage  *stage
	object map[string]any
	twice  bool
	// created are the rules that have judged the object as one that is created.
	created map[place]bool
}

// of returns what the policy of a finding says.
func (s *sayings) of(ref usher.PolicyRef) *Said {
	if s.plan.policies[s.last] != ref {
		s.last++
		if s.last >= len(s.said) || s.plan.policies[s.last] != ref {
			s.last = max(slices.Index(s.plan.policies, ref), 0)
		}
	}
	return &s.said[s.last]
}

// begin begins a stage.
func (s *sayings) begin(stage *stage, r *usher.Request) {
	s.stage, s.twice = stage, s.plan.twice(stage.phase)
	s.object, _ = r.Object.Tree()
}

// hear adds what a finding of the stage says.
func (s *sayings) hear(f *usher.Finding) {
	if s.twice {
		at := place{f.Policy, f.Rule}
		if s.stage.operation == usher.Update && s.created[at] {
			return
		}
		if s.created == nil {
			s.created = map[place]bool{}
		}
		s.created[at] = true
	}
	said := s.of(f.Policy)
	if f.Outcome == usher.Skipped {
		if s.plan.unjudged[place{f.Policy, f.Rule}] {
			said.Skip++
		}
		return
	}
	if !s.objects(said, f) {
		said.Pass++
	}
}

// twice reports whether there are rules that judge objects as created or as updated.
func (p *Plan) twice(phase usher.Phase) bool {
	return slices.ContainsFunc(p.stages, func(s stage) bool { return s.phase == phase && s.operation == usher.Update })
}

// objects adds the results of a finding, and reports whether there are any: otherwise the object
// passes.
func (s *sayings) objects(said *Said, f *usher.Finding) bool {
	for i := range f.Exemptions {
		x := &f.Exemptions[i]
		s.add(said, f, &result.Result{Rule: f.Rule, Status: result.Skip, Message: "exempt: " + x.Reason, Exemption: x})
	}
	if f.Outcome == usher.Exempted {
		return true
	}
	for i := range f.Checks {
		c := &f.Checks[i]
		s.add(said, f, &result.Result{
			Rule: c.Name, Validation: c.Validation, Status: statusOf(c), Message: c.Message, Field: c.Field, Severity: c.Severity, Actions: c.Actions,
		})
	}
	switch {
	case f.Outcome == usher.Failed:
		s.add(said, f, &result.Result{Rule: f.Rule, Status: result.Error, Message: f.Err.Error()})
	case f.Outcome == usher.Changed:
		fields, after := changes(s.object, f.Patch)
		s.object = after
		if len(fields) > 0 {
			s.add(said, f, &result.Result{Rule: f.Rule, Status: result.Warn, Message: wouldChange(fields), Field: fields[0]})
		}
		return len(fields)+len(f.Exemptions)+len(f.Checks) > 0
	case f.Outcome != usher.Passed && len(f.Checks) == 0:
		s.add(said, f, &result.Result{
			Rule: f.Rule, Status: result.Fail, Message: cmp.Or(f.Message, "denied without a message"), Actions: []usher.Action{usher.ActDeny},
		})
	}
	return f.Outcome != usher.Passed || len(f.Exemptions)+len(f.Checks) > 0
}

// statusOf returns the status of a part of a rule.
func statusOf(c *usher.Check) result.Status {
	switch {
	case c.Failed:
		return result.Error
	case len(c.Actions) == 1 && c.Actions[0] == usher.ActWarn:
		return result.Warn
	}
	return result.Fail
}

// add adds a result, unless another binding has said the same.
func (s *sayings) add(said *Said, f *usher.Finding, r *result.Result) {
	p := s.plan.judge.policies[f.Policy]
	r.Policy, r.Category = f.Policy, p.category
	if r.Severity == "" {
		r.Severity = p.severity
	}
	if r.Exemption == nil && f.Outcome != usher.Changed && (f.Confidential || fact.Confidential(s.plan.kind.Kind)) {
		r.Message = withhold.Secret
	}
	if len(r.Message) > maxMessage {
		r.Message = strings.ToValidUTF8(r.Message[:maxMessage], "") + "…"
	}
	for i := range said.Results {
		other := &said.Results[i]
		if other.Rule == r.Rule && other.Message == r.Message && other.Field == r.Field && other.Exemption == nil && r.Exemption == nil {
			other.Actions = union(other.Actions, r.Actions)
			if worse(r.Status, other.Status) {
				other.Status = r.Status
			}
			return
		}
	}
	switch n := len(said.Results); {
	case n == maxResults:
		return
	case n == maxResults-1:
		*r = result.Result{Policy: r.Policy, Rule: f.Rule, Status: r.Status, Category: r.Category, Severity: r.Severity, Message: leftOut}
	}
	said.Results = append(said.Results, *r)
}

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

// before returns what policies without rules in the rest of the stages have said.
func (s *sayings) before(used *usage, rest []stage) []Said {
	var all []Said
	for i, ref := range s.plan.policies {
		if slices.ContainsFunc(rest, func(left stage) bool {
			return slices.ContainsFunc(left.rules, func(r rule.Rule) bool { return r.Policy == ref && r.Phase == left.phase })
		}) {
			continue
		}
		said := s.said[i]
		if said.Policy = ref; s.plan.factual[i] {
			said.Read = used.all()
		}
		all = append(all, said)
	}
	return all
}

// result returns what was said, with the facts that were used.
func (s *sayings) result(used *usage) []Said {
	n := 0
	for i := range s.said {
		said := s.said[i]
		if s.plan.factual[i] {
			said.Read = used.all()
		}
		if len(said.Results)+said.Pass+said.Skip+len(said.Read) == 0 {
			continue
		}
		said.Policy = s.plan.policies[i]
		s.said[n] = said
		n++
	}
	return s.said[:n]
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
