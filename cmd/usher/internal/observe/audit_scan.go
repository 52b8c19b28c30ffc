package observe

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
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
	metadata, _ := o.tree["metadata"].(map[string]any)
	var n result.Identity
	n.APIVersion, n.Kind = o.kind.Resource.GroupVersion().String(), o.kind.Kind
	n.Namespace, _ = metadata["namespace"].(string)
	n.Name, _ = metadata["name"].(string)
	if prefix, _ := metadata["generateName"].(string); n.Name == "" && prefix != "" {
		n.Name = prefix + "*"
	}
	if uid, _ := metadata["uid"].(string); o.file == "" {
		n.UID = types.UID(uid)
	}
	return n
}

// A scan judges objects once, by the policies in force and, to compare, by others.
type scan struct {
	inForce *side
	whatIf  *side // nil if nothing is compared
	changed []usher.PolicyRef
	// named reports whether a policy is one of those of --what-if.
	named func(usher.PolicyRef) bool
	// abouts are what policies say about themselves.
	abouts map[usher.PolicyRef]format.About
	// selected are the policies to show; nil for all.
	selected func(usher.PolicyRef) bool

	// timeout is how long a rule may take for an object; 0 is any time.
	timeout time.Duration

	// done counts objects; read and total count kinds.
	done, read, total atomic.Int64
	objects           int
	kinds             []result.KindState
}

// A side is what one of the two sets of policies says.
type side struct {
	judge    *judge.Judge
	policies []usher.PolicyRef

	// unjudged are the rules that judge no objects, or none of a kind of the plans.
	unjudged []judge.Unjudged

	mu      sync.Mutex
	plans   map[result.Kind]*judge.Plan
	results []format.Result
	counts  map[usher.PolicyRef]*result.Summary
}

func newSide(j *judge.Judge, refs []usher.PolicyRef) *side {
	return &side{
		judge: j, policies: refs, unjudged: j.Unjudged(),
		plans: map[result.Kind]*judge.Plan{}, counts: map[usher.PolicyRef]*result.Summary{},
	}
}

// in has the judge of the side read objects in some versions.
func (d *side) in(versions judge.Versions) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judge = d.judge.WithVersions(versions)
	clear(d.plans)
}

func newScan(inForce policies.Set, whatIf *policies.Set, o judge.Options) *scan {
	sc := &scan{timeout: inForce.Timeout(), inForce: newSide(judge.New(compile.Order(inForce.Compiled()), o), inForce.Deciding())}
	sc.abouts = aboutsOf(inForce.Compiled())
	if whatIf != nil {
		maps.Copy(sc.abouts, aboutsOf(whatIf.Compiled()))
		changed, refs := sc.inForce.judge.Update(compile.Order(whatIf.Compiled()))
		sc.whatIf, sc.changed = newSide(changed, whatIf.Deciding()), refs
		sc.named = whatIf.FromFile
	}
	return sc
}

// aboutsOf returns what policies say about themselves.
func aboutsOf(all []compile.Compiled) map[usher.PolicyRef]format.About {
	abouts := map[usher.PolicyRef]format.About{}
	for i := range all {
		if description, links := all[i].About(); description != "" || len(links) > 0 {
			abouts[all[i].Ref] = format.About{Description: description, Links: links}
		}
	}
	return abouts
}

// only selects the policies with a name, which can be NAMESPACE/NAME. It reports whether there is
// one. The empty name selects all.
func (sc *scan) only(name string) bool {
	if name == "" {
		return true
	}
	sc.selected = func(ref usher.PolicyRef) bool { return ref.Name == name || ref.Namespace+"/"+ref.Name == name }
	return slices.ContainsFunc(sc.inForce.policies, sc.selected) || sc.whatIf != nil && slices.ContainsFunc(sc.whatIf.policies, sc.selected)
}

// plan returns what is to be said of a kind; nil for nothing.
func (d *side) plan(k result.Kind) *judge.Plan {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.plans[k]
	if !ok {
		if p = d.judge.Plan(k); p != nil {
			d.addUnjudged(p.Unjudged())
		}
		d.plans[k] = p
	}
	return p
}

func (d *side) addUnjudged(rules []judge.Unjudged) {
	for _, one := range rules {
		if !slices.Contains(d.unjudged, one) {
			d.unjudged = append(d.unjudged, one)
		}
	}
}

// some returns the policies of a plan that are to be judged; nil if there is none.
func (sc *scan) some(p *judge.Plan) []usher.PolicyRef {
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Policies()), func(ref usher.PolicyRef) bool {
		return sc.selected != nil && !sc.selected(ref) || sc.whatIf != nil && !slices.Contains(sc.changed, ref)
	})
}

// judge judges objects on all processors, and adds the results in their order.
func (sc *scan) judge(ctx context.Context, objects []object) error {
	sc.objects += len(objects)
	for _, d := range []*side{sc.inForce, sc.whatIf} {
		if d == nil {
			continue
		}
		said := make([][]judge.Judgement, len(objects))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := range objects {
			plan := d.plan(objects[i].kind)
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
			d.add(&objects[i], said[i])
		}
	}
	return nil
}

// add adds what was said about an object.
func (d *side) add(o *object, all []judge.Judgement) {
	about := name(o)
	for _, said := range all {
		d.count(said.Policy, result.Pass, said.Pass)
		d.count(said.Policy, result.Skip, said.Skip)
		for _, r := range said.Results {
			r.Object = about
			one := format.Result{Result: r, File: o.file}
			if o.line != nil {
				one.Line = o.line(r.Field)
			}
			d.results = append(d.results, one)
			d.count(said.Policy, r.Status, 1)
		}
	}
}

func (d *side) count(ref usher.PolicyRef, status result.Status, n int) {
	if d.counts[ref] == nil {
		d.counts[ref] = &result.Summary{}
	}
	d.counts[ref].Add(status, n)
}

// report returns the results of the scan: of a comparison, those that are new.
func (sc *scan) report() *format.Report {
	r := &format.Report{Objects: sc.objects, Results: []format.Result{}, Policies: []format.Policy{}, Abouts: sc.abouts}
	for _, k := range sc.kinds {
		r.Kinds = append(r.Kinds, k.Status())
	}
	current := sc.inForce
	r.Results = append(r.Results, current.results...)
	if sc.whatIf != nil {
		current = sc.whatIf
		var fresh []format.Result
		r.Effect, fresh = format.Compare(sc.inForce.results, sc.whatIf.results, sc.changed)
		r.Results = append([]format.Result{}, fresh...)
	}
	// Of kinds that no policy is known to be for.
	if unknown := current.counts[usher.PolicyRef{}]; unknown != nil {
		r.Summary.Merge(*unknown)
	}
	for _, ref := range current.policies {
		if sc.selected != nil && !sc.selected(ref) || sc.whatIf != nil && !sc.named(ref) && !r.Differs(ref) {
			continue
		}
		about := format.Policy{PolicyRef: ref}
		if counted := current.counts[ref]; counted != nil {
			about.Summary = *counted
		}
		r.Policies = append(r.Policies, about)
		r.Summary.Merge(about.Summary)
	}
	if sc.whatIf != nil {
		r.Summary = result.Summary{}
		for i := range r.Results {
			r.Summary.Add(r.Results[i].Status, 1)
		}
	}
	for _, one := range current.unjudged {
		if slices.ContainsFunc(r.Policies, func(p format.Policy) bool { return p.PolicyRef == one.Policy }) {
			r.NotJudged = append(r.NotJudged, one)
		}
	}
	r.Sort()
	return r
}
