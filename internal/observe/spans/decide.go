package spans

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

const (
	// slow is how long a rule takes that gets a span of its own; those that fail also do.
	slow = time.Millisecond
	// mostNamed limits the policies that the span of a decision names.
	mostNamed = 16
)

// Decider records the decisions of d on requests that are recorded.
func (t *Tracing) Decider(d usher.Decider) usher.Decider {
	if t == nil {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		ctx, span, ok := t.begin(ctx, decideSpan, time.Time{})
		if !ok {
			return d.Decide(ctx, r)
		}
		defer span.End()
		span.SetAttributes(ofRequest(r)...)
		decision, err := d.Decide(ctx, r)
		span.SetAttributes(ofDecision(&decision, err)...)
		if n := leftOut(ctx); n > 0 {
			span.SetAttributes(attribute.Int("usher.spans.left_out", n))
		}
		if err != nil {
			span.SetStatus(codes.Error, "no decision was reached")
		}
		return decision, err
	})
}

// ofRequest returns what a span says about a request: nothing that is in the object, not even its name.
func ofRequest(r *usher.Request) []attribute.KeyValue {
	var all []attribute.KeyValue
	all = text(all, "usher.uid", r.UID)
	all = text(all, "usher.phase", string(r.Phase))
	all = text(all, "usher.operation", string(r.Operation))
	all = text(all, "usher.entry", r.Entry)
	all = text(all, "k8s.kind", r.Kind.Kind)
	all = text(all, "k8s.group", r.Kind.Group)
	all = text(all, "k8s.version", r.Kind.Version)
	all = text(all, "k8s.resource", r.Resource.Resource)
	all = text(all, "k8s.subresource", r.Subresource)
	all = text(all, "k8s.namespace.name", r.Namespace)
	if r.Access != nil && !r.Access.NonResource {
		all = text(all, "k8s.verb", r.Access.Verb)
		all = text(all, "k8s.group", r.Resource.Group)
	}
	return append(all, attribute.Bool("usher.dry_run", r.DryRun))
}

// ofDecision returns what a span says about a decision.
func ofDecision(d *usher.Decision, err error) []attribute.KeyValue {
	verdict := string(d.Verdict)
	switch {
	case err != nil:
		verdict = "error"
	case d.Verdict == usher.NoOpinion:
		verdict = "no_opinion"
	}
	all := []attribute.KeyValue{attribute.String("usher.verdict", verdict), attribute.Int("usher.rules", len(d.Findings))}
	policies := map[usher.Outcome][]string{}
	for i := range d.Findings {
		f := &d.Findings[i]
		named := policies[f.Outcome]
		if effect := f.Outcome == usher.Rejected || f.Outcome == usher.Failed || f.Outcome == usher.Changed; effect && len(named) < mostNamed {
			policies[f.Outcome] = append(named, clean(f.Policy.String()))
		}
	}
	for outcome, named := range policies {
		all = append(all, attribute.StringSlice("usher.policies."+string(outcome), named))
	}
	return all
}

// Rule returns a function that records a rule that took long or failed, and when it began; nil if nothing is
// recorded.
func (t *Tracing) Rule() func(context.Context, *usher.Finding, time.Time) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, f *usher.Finding, began time.Time) {
		if f.Took < slow && f.Outcome != usher.Failed {
			return
		}
		_, span, ok := t.begin(ctx, ruleSpan, began)
		if !ok {
			return
		}
		var all []attribute.KeyValue
		all = text(all, "usher.policy.kind", f.Policy.Kind)
		all = text(all, "usher.policy.namespace", f.Policy.Namespace)
		all = text(all, "usher.policy.name", f.Policy.Name)
		all = text(all, "usher.rule", f.Rule)
		all = text(all, "usher.outcome", string(f.Outcome))
		span.SetAttributes(all...)
		if f.Outcome == usher.Failed {
			span.SetStatus(codes.Error, "the rule failed")
		}
		span.End(trace.WithTimestamp(began.Add(f.Took)))
	}
}

// Facts records the facts that f resolves for what is recorded. What is asked for is often computed from
// objects: spans have the sort of the fact alone, and the namespace of the policy that asks.
func (t *Tracing) Facts(f fact.Resolver) fact.Resolver {
	if t == nil {
		return f
	}
	return fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
		ctx, span, ok := t.begin(ctx, factSpan, time.Time{})
		if !ok {
			return f.Resolve(ctx, ref)
		}
		defer span.End()
		span.SetAttributes(text([]attribute.KeyValue{attribute.String("usher.fact.sort", string(ref.Sort()))}, "usher.tenant", fact.Tenant(ctx))...)
		value, err := f.Resolve(ctx, ref)
		if err != nil {
			span.SetStatus(codes.Error, "the fact was not resolved")
		}
		return value, err
	})
}

// Job returns a function that records the work of a process for the namespace of a policy, and returns a
// function to call with the outcome; nil if nothing is recorded.
func (t *Tracing) Job() func(ctx context.Context, job, tenant string) func(error) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, job, tenant string) func(error) {
		_, span, ok := t.begin(ctx, workerSpan, time.Time{})
		if !ok {
			return func(error) {}
		}
		span.SetAttributes(text([]attribute.KeyValue{attribute.String("usher.worker.job", job)}, "usher.tenant", tenant)...)
		return func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, "the process gave no answer")
			}
			span.End()
		}
	}
}

// Audit returns a function that records the judging of objects of a kind that exist, and returns a function to
// call with the outcome; nil if nothing is recorded. Each begins a trace.
func (t *Tracing) Audit() func(ctx context.Context, resource string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, resource string) (context.Context, func(error)) {
		ctx, span := t.tracer.Start(withBudget(ctx), auditSpan, trace.WithNewRoot())
		if span.IsRecording() {
			span.SetAttributes(attribute.String("k8s.resource", clean(resource)))
		}
		return ctx, func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, "the object was not judged")
			}
			span.End()
		}
	}
}
