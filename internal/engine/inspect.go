package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// inspectionTimeout limits how long all inspections of a request take together. They take half of
// the time that the request has left at most, and reading the objects half of that.
const inspectionTimeout = 2 * time.Second

// maxInspected is for how many requests objects are inspected at a time.
const maxInspected = 2

// An inspecting is a rule that has asked for an inspection.
type inspecting struct {
	rule    *rule.Rule
	res     result
	finding usher.Finding
}

// An inspector judges the objects that exist for the rules of an evaluation.
type inspector struct{ *evaluation }

// inspect judges the objects that exist for which rules ask, and records the rules with what they
// then say. Of a request that is denied nobody is told, and neither is the caller of Each. Others wait
// while maxInspected requests are at it: each holds many objects, and takes a processor.
func (d inspector) inspect(ctx context.Context, all []*inspecting, denied bool) {
	if len(all) == 0 {
		return
	}
	if denied || d.each != nil {
		for _, x := range all {
			x.finding.Outcome, x.finding.Message = usher.Skipped, "the objects that exist are judged if the request is allowed"
			d.record(&x.finding, &x.res)
		}
		return
	}
	if !d.attempt.inspect() {
		for _, x := range all {
			x.finding.Outcome, x.finding.Err, x.finding.Ignored = usher.Failed, errNotInspected, true
			d.record(&x.finding, &x.res)
		}
		return
	}
	most := inspectionTimeout
	if at, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(at)/2)
	}
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	reading, stop := context.WithTimeout(limited, most/2)
	defer stop()
	lists := map[string]listed{}
	select {
	case d.engine.inspections <- struct{}{}:
		d.attempt.hold()
		defer d.attempt.release()
		lists = d.list(reading, all)
	case <-reading.Done():
	}
	for _, x := range all {
		start := time.Now()
		objects, read := lists[x.key()]
		if !read {
			objects.err = fmt.Errorf("too many inspections at once: %w", reading.Err())
		}
		d.inspectFor(ctx, limited, x, objects)
		x.finding.Took += time.Since(start)
		d.record(&x.finding, &x.res)
	}
}

// inspectFor judges the objects for one rule until limited is done, and then has until ctx is done to
// say what it has found. It turns a panic into a failure of the rule, which changes no verdict.
func (d inspector) inspectFor(ctx, limited context.Context, x *inspecting, objects listed) {
	var err error
	defer func() {
		if err != nil {
			x.finding.Outcome, x.finding.Err, x.finding.Ignored = usher.Failed, err, true
		}
	}()
	defer catch(&err)
	if objects.err != nil && limited.Err() == nil && !errors.Is(objects.err, context.DeadlineExceeded) {
		err = objects.err
	}
	found := d.judgeAll(limited, x, objects)
	d.attempt.start(running{rule: x.rule, until: time.Now().Add(d.engine.options.RuleTimeout)})
	x.res.warnings = append(x.res.warnings, x.res.inspect.Tell(ctx, found)...)
	d.attempt.pause()
	for _, warning := range x.res.warnings {
		x.finding.Checks = append(x.finding.Checks, usher.Check{Name: x.rule.Name, Message: warning, Actions: []usher.Action{usher.ActWarn}})
	}
}

// A listed is the value of a fact with objects, or why there is none.
type listed struct {
	*fact.Sampled

	err error
}

func (x *inspecting) key() string { return x.res.inspect.Objects.Key() }

// list reads the objects of all inspections, those of several at once.
func (d inspector) list(ctx context.Context, all []*inspecting) map[string]listed {
	paths := map[string]*usher.Paths{}
	for _, x := range all {
		key := x.key()
		if paths[key] == nil {
			paths[key] = &usher.Paths{}
		}
		paths[key].Merge(x.res.inspect.Objects.Sample.Paths)
		if len(x.rule.Exemptions) > 0 {
			// They may be for any part of the object.
			paths[key].Add()
		}
	}
	lists := map[string]listed{}
	for _, x := range all {
		key := x.key()
		if _, known := lists[key]; known {
			continue
		}
		ref := *x.res.inspect.Objects
		ref.Sample = &fact.Sample{Most: ref.Sample.Most, Paths: paths[key]}
		lists[key] = d.sampled(ctx, x.rule, &ref)
	}
	return lists
}

// errNoSample is the error of a resolver that does not know lists with limits.
var errNoSample = errors.New("lists with limits cannot be resolved here")

func (d inspector) sampled(ctx context.Context, r *rule.Rule, ref fact.Ref) (list listed) {
	defer catch(&list.err)
	if err := r.Facts.Check(ref); err != nil {
		return listed{err: err}
	}
	value, err := d.engine.resolver.Resolve(ctx, ref)
	if err != nil {
		return listed{err: fmt.Errorf("fact %s: %w", ref, err)}
	}
	sampled, ok := value.(*fact.Sampled)
	if !ok {
		return listed{err: fmt.Errorf("fact %s: %w", ref, errNoSample)}
	}
	return listed{Sampled: sampled}
}

// judgeAll runs the program of an inspection on each of the objects, until ctx is done.
func (d inspector) judgeAll(ctx context.Context, x *inspecting, objects listed) *rule.Inspected {
	found := &rule.Inspected{Err: objects.err}
	if objects.err != nil {
		return found
	}
	i := x.res.inspect
	on := &rule.Rule{
		Policy: x.rule.Policy, Name: x.rule.Name, Phase: usher.Validate, FailurePolicy: i.FailurePolicy, Facts: x.rule.Facts,
		Exemptions: x.rule.Exemptions, Steps: []rule.Step{{Name: "cel", Program: i.Program}},
	}
	// The namespace is not stored yet.
	known := &fact.Known{}
	known.Set(&fact.Object{APIVersion: "v1", Kind: "Namespace", Name: i.Name}, i.Namespace, nil)
	at := map[string]int{}
	found.Total = objects.Total
	for k := range objects.Objects {
		if ctx.Err() != nil {
			break
		}
		one := d.onExisting(i, &objects.Objects[k], known)
		if one == nil {
			continue
		}
		_, finding, err := one.run(ctx, on)
		if err != nil {
			break
		}
		x.finding.Confidential = x.finding.Confidential || finding.Confidential
		if finding.Outcome == usher.Skipped {
			found.Total--
			continue
		}
		found.Checked++
		message := finding.Message
		switch {
		case finding.Outcome == usher.Failed && !finding.Ignored:
			message = finding.Err.Error()
		case finding.Outcome != usher.Rejected:
			continue
		}
		if found.First == nil {
			found.First = &rule.Input{Request: one.request, Object: one.tree, Facts: known}
		}
		index, seen := at[message]
		if !seen {
			index, at[message] = len(found.Violations), len(found.Violations)
			found.Violations = append(found.Violations, rule.Violation{Message: message, Name: one.request.Name})
		}
		v := &found.Violations[index]
		v.Count++
		v.Name = min(v.Name, one.request.Name)
	}
	return found
}

// onExisting returns the evaluation of a request that creates an object which exists; nil if it cannot
// be decoded.
func (d inspector) onExisting(i *rule.Inspection, object *fact.Item, known *fact.Known) *evaluation {
	tree, err := object.Tree()
	if err != nil {
		return nil
	}
	r := i.Creation
	r.Namespace = i.Name
	metadata, _ := tree["metadata"].(map[string]any)
	r.Name, _ = metadata["name"].(string)
	return d.onCreation(&r, tree, known)
}
