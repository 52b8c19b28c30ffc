package engine

import (
	"context"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// pods is what an engine knows of the pods that workloads make.
type pods struct {
	// changed says that rules may change pods that are created.
	changed bool
	// options are those of their creation.
	options *usher.Object
}

func (e *Engine) podsInForce() pods {
	creation := rule.PodCreation(usher.Mutate)
	return pods{
		changed: len(e.passes[usher.Mutate]) > 0 && e.mayMatch(&creation),
		options: usher.TreeObject(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}),
	}
}

// podPaths returns the paths in the objects of a request that a rule reads that is for pods: all of
// the pod if other rules may change it before.
func (e *Engine) podPaths(r *rule.Rule, of *usher.Request) (object, old *usher.Paths) {
	object, old = r.PodPaths(of)
	if e.pods.changed {
		object = rule.WholePodPaths(of.Kind)
	}
	return object, old
}

// A projection is the pod that the workload of a request would make, as the rules that change pods
// leave it. All rules for the pods of workloads share it.
type projection struct {
	workload *rule.Workload
	// skipped, unless empty, says why no rule is run on the pod.
	skipped string
	// on runs rules on the pod, and target is what their matches read.
	on     *evaluation
	target rule.Target
	// confidential says that a rule that read credentials has changed the pod, or says why it is
	// not changed.
	confidential bool
}

// Project returns the request that creates the pod of the workload that r writes, as rules with a
// [rule.Pod] see it, or why they do not. The error is that of ctx, or of an object that cannot be
// decoded.
func (e *Engine) Project(ctx context.Context, r *usher.Request) (pod *usher.Request, workload *rule.Workload, skipped string, err error) {
	object, err := r.Object.Tree()
	if err != nil {
		return nil, nil, "", err
	}
	d := newEvaluation(e, r, object, usher.AllPaths())
	d.attempt = e.carefully(r)
	if err := d.widenOld(usher.AllPaths()); err != nil {
		return nil, nil, "", err
	}
	p, err := d.project(ctx)
	if err != nil || p.skipped != "" {
		return nil, nil, p.skipped, err
	}
	return p.on.request, p.workload, "", nil
}

// judge runs a rule on the object, or on the pod that it would make.
func (d *evaluation) judge(ctx context.Context, r *rule.Rule) (result, usher.Finding, error) {
	if r.Pod == nil {
		return d.run(ctx, r)
	}
	start := time.Now()
	if d.pod == nil {
		pod, err := d.project(ctx)
		if err != nil {
			return result{}, usher.Finding{}, err
		}
		// What that took does not count as the rule's.
		d.pod, d.now = pod, time.Time{}
	}
	p := d.pod
	skipped := p.skipped
	if skipped == "" {
		skipped = r.Pod.Skips(p.workload)
	}
	if skipped == "" {
		if why := r.Pod.Match.Mismatch(&p.target); why != "" {
			skipped = "its pod: " + why
		}
	}
	if skipped != "" {
		d.now = time.Now()
		finding := usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Skipped, Message: skipped, Took: d.now.Sub(start)}
		if p.workload != nil {
			finding.PodOf = p.workload.String()
		}
		return result{skipped: skipped}, finding, nil
	}
	p.on.now = d.now
	res, finding, err := p.on.run(ctx, r)
	finding.Confidential = finding.Confidential || p.confidential
	d.now = p.on.now
	return res, finding, err
}

// project makes the pod of the workload that the request writes. The error is that of ctx, if it
// ended.
func (d *evaluation) project(ctx context.Context) (*projection, error) {
	workload, ok := rule.WorkloadOf(d.request, d.tree)
	if !ok {
		return &projection{skipped: "it makes no pods"}, nil
	}
	pod, skipped := workload.Pod(d.tree, d.old)
	p := &projection{workload: workload, skipped: skipped}
	if skipped != "" {
		return p, nil
	}
	p.on = d.onPod(workload, pod, usher.Validate)
	if d.engine.pods.changed {
		if err := p.change(ctx, d.onPod(workload, pod, usher.Mutate)); err != nil {
			return nil, err
		}
	}
	p.target = rule.TargetOf(p.on.request, p.on.tree)
	return p, nil
}

// onPod returns an evaluation of a request that creates the pod of a workload. The rules share the
// facts of those that are run on the workload.
func (d *evaluation) onPod(w *rule.Workload, pod map[string]any, phase usher.Phase) *evaluation {
	r := rule.PodCreation(phase)
	r.Namespace = w.Namespace
	on := d.onCreation(&r, pod, d.known)
	on.workload, on.of = w, d
	on.memo.Share(d.common)
	return on
}

// change tries the rules that change pods. What they find is of no interest, since nobody creates
// the pod. If one of them rejects it or fails, the pod is as the workload has it.
func (p *projection) change(ctx context.Context, mutation *evaluation) error {
	decision, err := mutation.mutate(ctx, mutation.engine.passes[usher.Mutate])
	if err != nil {
		return err
	}
	switch {
	case decision.Verdict == usher.Deny:
		p.workload.Unchanged = "without the changes of policies, since one of them rejects it: " + decision.Message
	case len(decision.Patch) > 0:
		p.on.tree = mutation.tree
		p.on.memo.Reset()
		p.on.request.Object = usher.TreeObject(mutation.tree)
	}
	p.confidential = slices.ContainsFunc(decision.Findings, func(f usher.Finding) bool {
		return f.Confidential && f.Outcome != usher.Passed && f.Outcome != usher.Skipped
	})
	return nil
}
