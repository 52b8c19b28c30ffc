package observe

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// An object is one object to judge, and where it comes from.
type object struct {
	kind result.Kind
	tree map[string]any
	file string
	// line returns the line of a field in the file; nil if there is none.
	line func(field string) int
}

func namespacesOf(objects []object) []string {
	var names []string
	for i := range objects {
		names = append(names, name(&objects[i]).Namespace)
	}
	return names
}

// String names the object in errors.
func (o *object) String() string {
	n := name(o)
	if n.Namespace != "" {
		n.Name = n.Namespace + "/" + n.Name
	}
	return n.Kind + " " + n.Name
}

// name names an object. One whose name the API server makes has the prefix with a star.
func name(o *object) result.Identity {
	n := result.ToBe(o.tree)
	n.APIVersion, n.Kind = o.kind.Resource.GroupVersion().String(), o.kind.Kind
	if metadata, _ := o.tree["metadata"].(map[string]any); o.file == "" {
		uid, _ := metadata["uid"].(string)
		n.UID = types.UID(uid)
	}
	return n
}

// A scan judges objects once, by policies.
type scan struct {
	judge    *judge.Judge
	policies []usher.PolicyRef
	// abouts are what policies say about themselves.
	abouts map[usher.PolicyRef]format.About
	// selected are the policies to show; nil for all.
	selected func(usher.PolicyRef) bool
	// unjudged are the rules that judge no objects, or none of a kind of the plans.
	unjudged []judge.Unjudged

	// timeout is how long a rule may take for an object; 0 is any time.
	timeout time.Duration

	// done counts objects; read and total count kinds.
	done, read, total atomic.Int64
	objects           int
	kinds             []result.KindState

	mu      sync.Mutex
	plans   map[result.Kind]*judge.Plan
	results []format.Result
	counts  map[usher.PolicyRef]*result.Summary
	// lacks says that a rule failed because an object of a file has no such field.
	lacks bool
}

func newScan(set policies.Set, o judge.Options) *scan {
	j := judge.New(set.Rules, o)
	return &scan{
		timeout: set.Timeout(), judge: j, policies: set.Deciding(), abouts: aboutsOf(set.Compiled()), unjudged: j.Unjudged(),
		plans: map[result.Kind]*judge.Plan{}, counts: map[usher.PolicyRef]*result.Summary{},
	}
}

// in has objects read in some versions.
func (sc *scan) in(versions judge.Versions) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.judge = sc.judge.WithVersions(versions)
	clear(sc.plans)
}

// aboutsOf returns what policies say about themselves.
func aboutsOf(all []compile.Compiled) map[usher.PolicyRef]format.About {
	abouts := map[usher.PolicyRef]format.About{}
	for i := range all {
		description, links := all[i].About()
		if messages := messagesOf(&all[i]); description != "" || len(links)+len(messages) > 0 {
			abouts[all[i].Ref] = format.About{Description: description, Links: links, Messages: messages}
		}
	}
	return abouts
}

// messagesOf returns the messages of validations that are the same for all objects, by name or field.
func messagesOf(c *compile.Compiled) map[string]string {
	spec := c.ObjectSpec()
	if spec == nil {
		return nil
	}
	messages := map[string]string{}
	for i := range spec.Validations {
		if v := &spec.Validations[i]; v.Message != "" && v.MessageExpression == "" {
			messages[cmp.Or(v.Name, fmt.Sprintf("spec.validations[%d]", i))] = v.Message
		}
	}
	return messages
}

// only selects the policies that a text names, all if it is empty. It says so if there are none; otherwise it returns "".
func (sc *scan) only(name string) (unknown string) {
	if name == "" {
		return ""
	}
	sc.selected = func(ref usher.PolicyRef) bool { return rule.Names(name, ref) }
	return rule.Unknown(name, sc.policies)
}

// plan returns what is to be said of a kind; nil for nothing.
func (sc *scan) plan(k result.Kind) *judge.Plan {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	p, ok := sc.plans[k]
	if !ok {
		if p = sc.judge.Plan(k); p != nil {
			sc.addUnjudged(p.Unjudged())
		}
		sc.plans[k] = p
	}
	return p
}

func (sc *scan) addUnjudged(rules []judge.Unjudged) {
	for _, one := range rules {
		if !slices.Contains(sc.unjudged, one) {
			sc.unjudged = append(sc.unjudged, one)
		}
	}
}

// some returns the policies of a plan that are to be judged; nil if there is none.
func (sc *scan) some(p *judge.Plan) []usher.PolicyRef {
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Policies()), func(ref usher.PolicyRef) bool {
		return sc.selected != nil && !sc.selected(ref)
	})
}

// judgeAll judges objects on all processors, and adds the results in their order.
func (sc *scan) judgeAll(ctx context.Context, objects []object) error {
	sc.objects += len(objects)
	said := make([][]judge.Judgement, len(objects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range objects {
		plan := sc.plan(objects[i].kind)
		some := sc.some(plan)
		if len(some) == 0 {
			continue
		}
		group.Go(func() error {
			var err error
			said[i], err = policies.Within(ctx, sc.timeout, "judge "+objects[i].String(), func(ctx context.Context) ([]judge.Judgement, error) {
				return plan.Judge(ctx, objects[i].tree, some)
			})
			sc.done.Add(1)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range objects {
		sc.add(&objects[i], said[i])
	}
	return nil
}

// add adds what was said about an object.
func (sc *scan) add(o *object, all []judge.Judgement) {
	about := name(o)
	for _, said := range all {
		sc.count(said.Policy, result.Pass, said.Pass)
		sc.count(said.Policy, result.Skip, said.Skip)
		for _, r := range said.Results {
			r.Object = about
			one := format.Result{Result: r, File: o.file}
			if o.line != nil {
				one.Line = o.line(r.Field)
			}
			sc.results = append(sc.results, one)
			sc.count(said.Policy, r.Status, 1)
			sc.lacks = sc.lacks || r.Status == result.Error && objects.LacksDefault(o.tree, r.Message)
		}
	}
}

// noteExcluding prints to s.Err that objects of which a policy says something may be from users whom it excludes.
func (sc *scan) noteExcluding(cmd *cobra.Command, s cli.Streams, rules []rule.Rule) {
	i := slices.IndexFunc(rules, func(r rule.Rule) bool {
		on := r.DependsOn(usher.Create)
		return on.Any(rule.OnExcluded) && !on.Any(rule.OnUser) &&
			slices.ContainsFunc(sc.results, func(found format.Result) bool { return found.Policy == r.Policy })
	})
	if i >= 0 {
		cli.Notef(cmd, s, "hint", "%s: objects are judged as if nobody wrote them whom excludeSubjects names", rules[i].Policy)
	}
}

func (sc *scan) count(ref usher.PolicyRef, status result.Status, n int) {
	if sc.counts[ref] == nil {
		sc.counts[ref] = &result.Summary{}
	}
	sc.counts[ref].Add(status, n)
}

// report returns the results of the scan.
func (sc *scan) report() *format.Report {
	r := &format.Report{Objects: sc.objects, Results: append([]format.Result{}, sc.results...), Policies: []result.PolicySummary{}, Abouts: sc.abouts}
	for _, k := range sc.kinds {
		r.Kinds = append(r.Kinds, k.Status())
	}
	// Of kinds that no policy is known to be for.
	if unknown := sc.counts[usher.PolicyRef{}]; unknown != nil {
		r.Summary.Merge(*unknown)
	}
	for _, ref := range sc.policies {
		if sc.selected != nil && !sc.selected(ref) {
			continue
		}
		about := result.PolicySummary{PolicyRef: ref}
		if counted := sc.counts[ref]; counted != nil {
			about.Summary = *counted
		}
		r.Policies = append(r.Policies, about)
		r.Summary.Merge(about.Summary)
	}
	for _, one := range sc.unjudged {
		if slices.ContainsFunc(r.Policies, func(p result.PolicySummary) bool { return p.PolicyRef == one.Policy }) {
			r.NotJudged = append(r.NotJudged, one)
		}
	}
	r.Sort()
	return r
}
