package auditing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/resources"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/stream"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// Limits of what is read while the writer of a policy waits.
const (
	countTime      = 500 * time.Millisecond
	countedKinds   = 5
	countedObjects = 250
)

// Existing returns warnings that say how many objects that exist an object policy of the cluster would
// refuse, if it denies. It counts for one policy at a time, and says nothing about another one meanwhile,
// nor about what it cannot read.
func (a *Audit) Existing(ctx context.Context, c compile.Compiled) (warnings []rule.Problem) {
	discovered := a.options.Discovery.Lists()
	if c.Object == nil || !strings.Contains(c.Action(), string(usher.ActDeny)) || discovered == nil || !a.counting.TryLock() {
		return nil
	}
	defer a.counting.Unlock()
	defer func() {
		if panicked := recover(); panicked != nil {
			a.options.Log.Error("objects that a policy would refuse are not counted because of a panic: report this as a defect", "policy", c.Ref.String(), "panic", panicked)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, countingTime(ctx))
	defer cancel()
	j := judge.New(compile.Order(a.judging(c)), judge.Options{
		Facts: fact.Remembered(a.policies.Facts), Engine: a.policies.Engine, Unsent: a.options.Unsent, Versions: resources.Versions(discovered.Resources, resources.Streaming),
	})
	for _, counted := range counts(j, c.Ref, discovered.Resources) {
		more, err := stream.Page(ctx, a.options.Client, counted.kind, countedObjects, stream.Options{MetadataOnly: counted.plan.MetadataOnly(), Log: a.options.Log}, func(object []byte) error {
			return counted.add(ctx, object)
		})
		if err != nil {
			a.options.Log.Debug("not all objects that a policy would refuse are counted", "policy", c.Ref.String(), "error", err)
		}
		if counted.refused > 0 {
			warnings = append(warnings, rule.Problem{
				Policy: c.Ref, Severity: rule.Warning, Field: "spec.validations", What: counted.text(!more && err == nil),
				Do: "see all with: usher audit --from-cluster --policy " + printable.Line(c.Ref.Name) + ", with -p FILE before it is applied",
			})
		}
	}
	return warnings
}

// countingTime returns how long objects may be counted, so that the request is answered in time.
func countingTime(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return min(countTime, time.Until(at)/2)
	}
	return countTime
}

// judging returns a policy that is written, and those in force that have an influence on what it says:
// exemptions, and what changes the pods of workloads. Workloads whose pods it only warns of are not for it.
func (a *Audit) judging(c compile.Compiled) []compile.Compiled {
	c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r rule.Rule) bool { return r.Pod != nil && r.Pod.Warns })
	return append(slices.DeleteFunc(slices.Clone(a.policies.Enforced()), func(other compile.Compiled) bool {
		mutates := other.Admission != nil || other.Binding != nil || slices.ContainsFunc(other.Rules, func(r rule.Rule) bool { return r.Phase == usher.Mutate })
		return other.Ref == c.Ref || other.Exemption == nil && !mutates
	}), c)
}

// A count is how many objects of a kind a policy would refuse, of those that were read.
type count struct {
	kind  result.Kind
	plan  *judge.Plan
	some  []usher.PolicyRef
	paths *usher.Paths

	read, refused int
	// example names the first one that it would refuse.
	example string
}

// counts returns the first kinds that a policy judges, that API servers send and that an audit reads, in the order of discovery.
// Of Secrets no more than metadata is read: dry runs could tell their data otherwise, and leave no trace.
func counts(j *judge.Judge, policy usher.PolicyRef, lists []*metav1.APIResourceList) []*count {
	some := []usher.PolicyRef{policy}
	judges := func(k result.Kind) []usher.PolicyRef {
		if p := j.Plan(k); p != nil && slices.Contains(p.Policies(), policy) {
			return some
		}
		return nil
	}
	var all []*count
	resources.Each(lists, func(k result.Kind, r *metav1.APIResource) {
		written := usher.Request{Resource: k.Resource, Operation: usher.Create}
		if len(all) == countedKinds || webhookconfig.Unsent(&written) != "" || resources.Unoffered(r, resources.Streaming) != nil || !resources.Selected(k, judges) {
			return
		}
		plan, paths := j.Plan(k), &usher.Paths{}
		if fact.Confidential(k.Kind) && !plan.MetadataOnly() {
			return
		}
		paths.Add("metadata", "namespace")
		paths.Add("metadata", "name")
		paths.Merge(plan.Paths())
		all = append(all, &count{kind: k, plan: plan, some: some, paths: paths})
	})
	return all
}

// add judges an object. An evaluation that is given up may still use what is judged, which is a copy.
func (n *count) add(ctx context.Context, object []byte) error {
	part, err := usher.RawObject(object).AppendPart(nil, n.paths)
	if err != nil {
		return err
	}
	tree, err := usher.RawObject(part).Tree()
	if err != nil {
		return err
	}
	said, err := n.plan.Judge(ctx, tree, n.some)
	if err != nil {
		return err
	}
	n.read++
	if !slices.ContainsFunc(said, denies) {
		return nil
	}
	if n.refused++; n.refused == 1 {
		of := result.IdentityOf(tree)
		n.example = printable.Line(strings.TrimPrefix(of.Namespace+"/"+of.Name, "/"))
	}
	return nil
}

// denies reports whether a request for the object would be denied.
func denies(s judge.Judgement) bool {
	return slices.ContainsFunc(s.Results, func(r result.Result) bool { return r.Exemption == nil && slices.Contains(r.Actions, usher.ActDeny) })
}

// text says what was counted; whole means that all objects of the kind were read.
func (n *count) text(whole bool) string {
	of := fmt.Sprintf("the first %d", n.read)
	if whole {
		of = strconv.Itoa(n.read)
	}
	return fmt.Sprintf("%d of %s existing %s would be refused, such as %s", n.refused, of, n.kind.Resource.GroupResource(), n.example)
}
