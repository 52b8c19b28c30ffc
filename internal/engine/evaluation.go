package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// An evaluation is one request on its way to a decision.
type evaluation struct {
	state
	knowledge
	findings

	engine *Engine
	// attempt runs the programs; all evaluations of one request have the same.
	attempt *attempt
	// begun says that the rules of the first pass are matched.
	begun   bool
	matched []*rule.Rule
	// brief says that all of these are brief.
	brief bool
	// input is that of [quick], and since counts the brief rules since somebody has looked at the time.
	input  *rule.Input
	since  int
	frames frames
	// common are the values that several of the rules compute.
	common rule.Common
	// shares are those of the namespaces whose policies have run, unless this is the evaluation of a pod.
	shares overrun.Shares
	// workload is what the request really writes, if it is that for the pod of a workload. The
	// evaluation of the workload has the pod, which is nil until a rule is run on it.
	workload *rule.Workload
	pod      *projection
	// of is the evaluation of the workload, if this is that of its pod.
	of *evaluation
	// less are the validations that a rule leaves out which runs again because of exemptions; nil while
	// none does.
	less rule.Validations
	// work, unless nil, is told which rule runs.
	work *stall.Work
	// cleanup is what is known of the request.
	cleanup cleanup
	// now is when the rule before ended, and the next one begins; zero for the first of a
	// pass.
	now time.Time
}

func newEvaluation(e *Engine, r *usher.Request, tree map[string]any, paths *usher.Paths) *evaluation {
	d := &evaluation{engine: e, state: state{request: r, tree: tree, paths: paths}}
	d.known, d.memo = &d.own, &d.ownMemo
	return d
}

// onCreation completes r, a request that creates the object, as if the user had sent it, and returns its
// evaluation. Its rules share the facts in known.
func (d *evaluation) onCreation(r *usher.Request, object map[string]any, known *fact.Known) *evaluation {
	r.UID, r.User, r.DryRun, r.Trusted = d.request.UID, d.request.User, d.request.DryRun, d.request.Trusted
	r.Object, r.Options = usher.TreeObject(object), d.engine.pods.options
	on := newEvaluation(d.engine, r, object, usher.AllPaths())
	on.known, on.attempt = known, d.attempt
	return on
}

// match returns the rules of a pass that match the object in its current state, with everything
// decoded that they read. The error is that of an object that cannot be decoded.
func (d *evaluation) match(pass int) ([]*rule.Rule, error) {
	if d.begun {
		d.begun = false
		return d.matched, nil
	}
	s := rule.TargetOf(d.request, d.tree)
	d.now = time.Time{}
	d.matched = d.engine.matcher.Matching(d.matched[:0], d.request.Phase, pass, &s)
	if d.rules = len(d.matched); d.rules == 0 {
		return nil, nil
	}
	join := d.join(d.matched)
	if err := d.widen(join.object); err != nil {
		return nil, err
	}
	if err := d.widenOld(join.oldObject); err != nil {
		return nil, err
	}
	d.common, d.brief, d.input, d.expected = join.common, join.brief, nil, d.rules
	d.memo.Share(d.common)
	return d.matched, nil
}

// readPaths returns the paths that rules read, joined with those that are decoded. It changes
// neither.
func (d *evaluation) readPaths(rules []*rule.Rule) (object, old *usher.Paths) {
	var ownObject, ownOld bool
	object, old = d.paths, d.oldPaths
	for _, r := range rules {
		if r.Pod != nil {
			o, before := d.engine.podPaths(r, d.request)
			object, ownObject = with(object, ownObject, o)
			old, ownOld = with(old, ownOld, before)
			continue
		}
		for i := range r.Steps {
			selective, ok := r.Steps[i].Program.(rule.Selective)
			if !ok {
				return usher.AllPaths(), usher.AllPaths()
			}
			o, before := selective.ReadPaths()
			object, ownObject = with(object, ownObject, o)
			old, ownOld = with(old, ownOld, before)
		}
	}
	return object, old
}

// with returns paths with others added, which is a copy if the paths are shared.
func with(paths *usher.Paths, own bool, others *usher.Paths) (*usher.Paths, bool) {
	switch {
	case others.Within(paths):
		return paths, own
	case paths.Within(others):
		return others, false
	}
	if !own {
		paths = paths.Clone()
	}
	paths.Merge(others)
	return paths, true
}

// A named is a rule that is formatted as its name.
type named rule.Rule

// String implements [fmt.Stringer].
func (n *named) String() string { return n.Policy.String() + ": " + n.Name }

// run runs a rule and returns its result and its finding. The error is that of ctx, if it ended
// before the rule did.
func (d *evaluation) run(ctx context.Context, r *rule.Rule) (res result, finding usher.Finding, err error) {
	if d.brief && (quick{d}).late(ctx) || !d.brief && d.ended(ctx) {
		return d.unreached(ctx, r)
	}
	start := d.now
	if start.IsZero() {
		start = time.Now()
	}
	if d.work != nil {
		d.work.AtNamed((*named)(r))
	}
	res, err = runRule(ctx, d, r, start)
	if err != nil || res.rejected {
		if undone := d.undo(); undone != nil {
			err = errors.Join(err, undone)
		}
	}
	var judged judgement
	said, failed := res, err
	if len(r.Exemptions) > 0 && d.hasEffect(ctx, r, &res, err) {
		if judged, err = d.exemptions(ctx, r, res, err); err == nil {
			res, err = judged.res, judged.err
		}
	}
	d.keep()
	d.now = time.Now()
	finding = usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Passed, Took: d.now.Sub(start), Confidential: d.factsOf(r).Disclosed(), Checks: res.checks}
	if d.workload != nil {
		finding.PodOf = d.workload.String()
	}
	switch {
	case judged.exempt:
		finding.Outcome, finding.Message, finding.Checks = usher.Exempted, said.text(), said.checks
		if failed != nil {
			finding.Message = failed.Error()
		}
		res = said.silence()
	case err != nil:
		fail(d, r, &res, &finding, err)
		if d.ended(ctx) && !overdue(ctx) {
			return res, finding, ended(ctx, r)
		}
	default:
		d.conclude(&res, &finding)
	}
	if len(r.Exemptions) > 0 {
		judged.tell(said.text(), &res, &finding)
	}
	d.ran(ctx, &finding, start)
	return res, finding, nil
}

// ran tells who observes rules that one has run.
func (d *evaluation) ran(ctx context.Context, f *usher.Finding, began time.Time) {
	if tell := d.engine.options.Ran; tell != nil {
		observed := *f
		tell(ctx, &observed, began)
	}
}

// conclude fills in the finding of a rule that has not failed and from which nobody is exempt.
func (d *evaluation) conclude(res *result, f *usher.Finding) {
	switch {
	case res.rejected:
		f.Outcome, f.Message = usher.Rejected, cmp.Or(res.message, res.note)
	case res.skipped != "":
		f.Outcome, f.Message, f.Condition = usher.Skipped, res.skipped, res.condition
	case len(res.patch) > 0 && !d.discards():
		f.Outcome, f.Patch = usher.Changed, res.patch
	}
	if quiet := f.Outcome == usher.Passed || f.Outcome == usher.Skipped; !quiet {
		return
	}
	if at := slices.IndexFunc(res.checks, ignored); at >= 0 {
		f.Outcome, f.Message, f.Condition = usher.Failed, "", ""
		f.Err, f.Ignored = errors.New(res.checks[at].Message), true
	}
}

// ignored reports whether a part of a rule has failed, and nothing follows from that.
func ignored(c usher.Check) bool { return c.Failed && len(c.Actions) == 0 }

// hasEffect reports whether what a rule has said has an effect, so that its exemptions are judged.
func (d *evaluation) hasEffect(ctx context.Context, r *rule.Rule, res *result, err error) bool {
	if d.ended(ctx) || d.discards() {
		return false
	}
	return res.says() || err != nil && !d.ignores(r)
}

// fail fills in the finding of a rule that has failed: it denies only where it could have denied.
func fail(d *evaluation, r *rule.Rule, res *result, f *usher.Finding, err error) {
	f.Outcome, f.Err, f.Ignored = usher.Failed, err, d.ignores(r)
	warner, ok := r.Steps[len(r.Steps)-1].Program.(rule.Warner)
	if f.Ignored || !ok {
		return
	}
	defer catch(new(error))
	denied, warned := warner.IfFailed(&rule.Input{
		Request: d.request, Object: d.tree, Matched: d.began, OldObject: d.old, Workload: d.workload, Facts: d.factsOf(r), Memo: &rule.Memo{},
	})
	f.Ignored = !denied
	if !denied && warned {
		res.warnings = append(res.warnings, failure(f))
	}
}

// ignores reports whether the request goes on when a rule has failed.
func (d *evaluation) ignores(r *rule.Rule) bool {
	return cmp.Or(r.FailurePolicy, d.engine.options.FailurePolicy) == usher.Ignore || d.discards()
}

// record keeps a finding and the warnings that came with it.
func (d *evaluation) record(f *usher.Finding, res *result) {
	told := d.tells(f)
	switch {
	case d.each == nil:
		d.add(f, told, res)
	case told:
		d.attempt.tell(&d.findings, f)
	}
}
