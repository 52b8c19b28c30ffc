package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// Limits of what rules say besides their answer: they can be thousands, and have thousands of
// objects of params.
const (
	// maxWarnings is more than an API server passes on, which is 4,096 characters.
	maxWarnings = 1000
	// maxJoined limits the values of one annotation, in bytes.
	maxJoined = 16 << 10
)

// A deciding is one request on its way to a decision.
type evaluation struct {
	engine  *Engine
	request *usher.Request
	// attempt runs the programs; all evaluations of one request have the same.
	attempt *attempt
	// begun says that the rules of the first pass are matched.
	begun bool
	// tree is the object as the rules so far have left it, decoded at paths; editor changes it, and
	// is nil until then. applied are the changes: the first kept operations are those of finished
	// rules, the others of the current one. The tree is broken if an operation failed. old is the
	// old object of an update, nil until the first rule matches, decoded at oldPaths.
	tree     map[string]any
	paths    *usher.Paths
	editor   *jsonpatch.Editor
	applied  usher.Patch
	kept     int
	broken   bool
	old      map[string]any
	oldPaths *usher.Paths
	// memo is that of tree and old; ownMemo, unless a rule runs again without containers.
	memo    *rule.Memo
	ownMemo rule.Memo
	// common are the values that several of the rules compute.
	common rule.Common
	// known are the facts that rules share: own, or those of the evaluation of the workload. Rules that
	// are bound to a namespace have facts of their own, so that none sees what another may read.
	known   *fact.Known
	own     fact.Known
	bound   *fact.Known
	boundTo *rule.Rule
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

	// began is the object as the rules of the pass were matched on it, nil unless one of them names
	// resources; again is on while rules run once more, and repeated when some have.
	began           map[string]any
	again, repeated bool

	matched  []*rule.Rule
	frames   []frame
	decision usher.Decision
	// each, unless nil, gets the findings in place of the decision: the last one is in last.
	each func(*usher.Finding)
	last *usher.Finding
	// annotated are the values that rules have for the audit log.
	annotated map[rule.Annotation]bool
	// work, unless nil, is told which rule runs.
	work *stall.Work
	// now is when the rule before ended, and the next one begins; zero for the first of a
	// pass.
	now time.Time
}

func newEvaluation(e *Engine, r *usher.Request, tree map[string]any, paths *usher.Paths) *evaluation {
	d := &evaluation{engine: e, request: r, tree: tree, paths: paths}
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
	if len(d.matched) == 0 {
		return nil, nil
	}
	join := d.join(d.matched)
	if err := d.widen(join.object); err != nil {
		return nil, err
	}
	if err := d.widenOld(join.oldObject); err != nil {
		return nil, err
	}
	d.common = join.common
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

// widen decodes the values at paths.
func (d *evaluation) widen(paths *usher.Paths) error {
	if paths.Within(d.paths) {
		return nil
	}
	d.paths = paths
	return d.restore()
}

// restore rebuilds the tree: the object of the request with the applied changes.
func (d *evaluation) restore() error {
	tree, err := d.request.Target().Part(d.paths)
	if err != nil {
		return err
	}
	d.tree, d.editor = tree, nil
	d.memo.Reset()
	if len(d.applied) == 0 {
		return nil
	}
	d.editor = jsonpatch.NewEditor(tree)
	if _, err := d.editor.Append(nil, d.applied); err != nil {
		return fmt.Errorf("change object again: %w", err)
	}
	d.tree = d.editor.Tree()
	return nil
}

// change applies the changes of the current rule. It decodes the values that they change, if no
// program reads them.
func (d *evaluation) change(patch usher.Patch) error {
	for i := range patch {
		if !d.paths.CoversPointer(patch[i].Path) {
			if err := d.widen(usher.AllPaths()); err != nil {
				return err
			}
			break
		}
	}
	if d.editor == nil {
		d.editor = jsonpatch.NewEditor(d.tree)
	}
	if d.applied == nil {
		d.applied = make(usher.Patch, 0, max(len(patch), len(d.matched)))
	}
	d.broken = true
	applied, err := d.editor.Append(d.applied, patch)
	if err != nil {
		return err
	}
	d.broken = false
	d.tree, d.applied = d.editor.Tree(), applied
	d.memo.Reset()
	return nil
}

// changed is what the rule at work has changed so far.
func (d *evaluation) changed() usher.Patch {
	return d.applied[d.kept:len(d.applied):len(d.applied)]
}

// keep makes the changes of the current rule permanent.
func (d *evaluation) keep() { d.kept = len(d.applied) }

// undo reverts the changes of the current rule.
func (d *evaluation) undo() error {
	// A program that failed may have left goroutines that still read the tree. It must not change
	// any more, so a new editor copies.
	d.editor = nil
	if !d.broken && len(d.applied) == d.kept {
		return nil
	}
	d.applied, d.broken = d.applied[:d.kept], false
	return d.restore()
}

func (d *evaluation) widenOld(paths *usher.Paths) error {
	if d.request.Object == nil || d.request.OldObject == nil || d.old != nil && paths.Within(d.oldPaths) {
		return nil
	}
	old, err := d.request.OldObject.Part(paths)
	if err != nil {
		return fmt.Errorf("old object: %w", err)
	}
	d.old, d.oldPaths = old, paths
	d.memo.Reset()
	return nil
}

// run runs a rule and returns its result and its finding. The error is that of ctx, if it ended
// before the rule did.
func (d *evaluation) run(ctx context.Context, r *rule.Rule) (result, usher.Finding, error) {
	if d.ended(ctx) {
		return d.unreached(ctx, r)
	}
	start := d.now
	if start.IsZero() {
		start = time.Now()
	}
	if d.work != nil {
		d.work.At(r.Policy.String() + ": " + r.Name)
	}
	res, err := runRule(ctx, d, r, start)
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
	finding := usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Passed, Took: d.now.Sub(start), Confidential: d.factsOf(r).Disclosed(), Checks: res.checks}
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
		finding.Outcome, finding.Err, finding.Ignored = usher.Failed, err, d.ignores(r)
		if d.ended(ctx) && !overdue(ctx) {
			return res, finding, ended(ctx, r)
		}
	case res.rejected:
		finding.Outcome, finding.Message = usher.Rejected, cmp.Or(res.message, res.note)
	case res.skipped != "":
		finding.Outcome, finding.Message = usher.Skipped, res.skipped
	case len(res.patch) > 0 && !d.discards():
		finding.Outcome, finding.Patch = usher.Changed, res.patch
	}
	if len(r.Exemptions) > 0 {
		judged.tell(said.text(), &res, &finding)
	}
	return res, finding, nil
}

// hasEffect reports whether what a rule has said has an effect, so that its exemptions are judged.
func (d *evaluation) hasEffect(ctx context.Context, r *rule.Rule, res *result, err error) bool {
	if d.ended(ctx) || d.discards() {
		return false
	}
	return res.says() || err != nil && !d.ignores(r)
}

// factsOf returns the facts that a rule is given.
func (d *evaluation) factsOf(r *rule.Rule) *fact.Known {
	if r.Facts == nil || r.Facts.Namespace == "" {
		return d.known
	}
	if d.boundTo != r {
		d.bound, d.boundTo = &fact.Known{}, r
	}
	return d.bound
}

// ignores reports whether the request goes on when a rule has failed.
func (d *evaluation) ignores(r *rule.Rule) bool {
	return cmp.Or(r.FailurePolicy, d.engine.options.FailurePolicy) == usher.Ignore || d.discards()
}

// discards reports whether changes come to nothing: an object about to go is not changed.
func (d *evaluation) discards() bool {
	return d.request.Phase == usher.Mutate && d.request.Operation == usher.Delete
}

// record keeps a finding and the warnings that came with it. A finding of a built-in rule
// is of interest only when the rule made a difference.
func (d *evaluation) record(f usher.Finding, res *result) {
	told := f.Outcome != usher.Passed || !builtIn(f.Policy)
	if d.again {
		told = f.Outcome != usher.Passed && f.Outcome != usher.Skipped
	}
	if d.each != nil {
		if told {
			d.attempt.tell(d, f)
		}
		return
	}
	if told {
		if d.decision.Findings == nil {
			d.decision.Findings = make([]usher.Finding, 0, len(d.matched))
		}
		d.decision.Findings = append(d.decision.Findings, f)
	}
	for _, w := range res.warnings {
		if len(d.decision.Warnings) < maxWarnings && !slices.Contains(d.decision.Warnings, w) {
			d.decision.Warnings = append(d.decision.Warnings, w)
		}
	}
	for _, a := range res.audit {
		d.annotate(a)
	}
}

// annotate adds an audit annotation. Values that are joined are left out when they are too long
// together.
func (d *evaluation) annotate(a rule.Annotation) {
	if d.decision.Audit == nil {
		d.decision.Audit, d.annotated = map[string]string{}, map[rule.Annotation]bool{}
	}
	joined, present := d.decision.Audit[a.Key]
	switch {
	case !present:
		joined = a.Value
	case !a.Joined || d.annotated[a] || len(joined)+len(a.Value) > maxJoined:
		return
	default:
		joined += ", " + a.Value
	}
	d.decision.Audit[a.Key], d.annotated[a] = joined, true
}

func builtIn(p usher.PolicyRef) bool { return p == usher.PolicyRef{} }
