package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// maxReruns limits how often exemptions have a rule run again for one request.
	maxReruns = 16
	// maxNotExempt limits the exemptions that a finding says do not apply.
	maxNotExempt = 8
)

// A judgement is what exemptions make of what a rule has said.
type judgement struct {
	// exempt says that nothing is left of it. Otherwise res and err are what is left.
	exempt bool
	res    result
	err    error
	// applied are the exemptions that made a difference, and not those that did not.
	applied []application
	not     []usher.NotExempt
	// nearly are those of not that one clause excludes, which is not that they are for other objects.
	nearly []usher.NotExempt
}

// A judging judges the exemptions from one rule: nothing else in Usher does.
//
// An exemption from the policy covers whatever the rule has said: denials, warnings, failures,
// changes. One from validations covers these alone, and one for images what the rule does not say
// without the containers of these images. The rule runs again to find that out.
type judging struct {
	*evaluation

	rule *rule.Rule
	// said and failed are what the rule has said about the object as it is.
	said   result
	failed error
	// exempt are the validations that are left out, images those of the containers.
	exempt rule.Validations
	images []rule.Pattern
	reruns int
	// clauses are how many clauses that exclude the request are looked for in an exemption.
	clauses int
}

// exemptions judges the exemptions from a rule that has something to say. What the rule has changed
// is undone, unless it failed or rejected the request, when that is done already.
func (d *evaluation) exemptions(ctx context.Context, r *rule.Rule, said result, failed error) (judgement, error) {
	patch := slices.Clone(said.patch)
	if err := d.undo(); err != nil {
		return judgement{}, err
	}
	// What belongs to the rule stays as it is.
	bound, boundTo := d.bound, d.boundTo
	j := judging{evaluation: d, rule: r, said: said, failed: failed}
	judged := j.judge(ctx)
	d.bound, d.boundTo = bound, boundTo
	if judged.exempt || len(patch) == 0 {
		return judged, nil
	}
	if err := d.change(patch); err != nil {
		return judgement{}, err
	}
	judged.res.patch = d.changed()
	return judged, nil
}

func (j *judging) judge(ctx context.Context) judgement {
	judged := judgement{res: j.said, err: j.failed}
	var partial []*rule.Exempting
	for i := range j.rule.Exemptions {
		x := &j.rule.Exemptions[i]
		if !j.concerns(x) {
			continue
		}
		// Of many it is of no interest which nearly apply.
		j.clauses = 2
		if len(judged.not) >= maxNotExempt {
			j.clauses = 1
		}
		whys, elsewhere := j.excludes(ctx, x)
		switch {
		case len(whys) > 0:
			not := usher.NotExempt{PolicyRef: x.Ref, Why: whys, Elsewhere: elsewhere}
			judged.not = append(judged.not, not)
			if len(whys) == 1 && j.clauses > 1 && !elsewhere {
				judged.nearly = append(judged.nearly, not)
			}
		case len(x.Validations) == 0 && len(x.Images) == 0:
			return judgement{exempt: true, applied: []application{{x.Exemption, j.parts()}}}
		default:
			partial = append(partial, x)
		}
	}
	if len(partial) > 0 {
		j.narrow(ctx, partial, &judged)
	}
	slices.SortStableFunc(judged.not, func(a, b usher.NotExempt) int {
		switch {
		case a.Elsewhere == b.Elsewhere:
			return cmp.Compare(len(a.Why), len(b.Why))
		case a.Elsewhere:
			return 1
		}
		return -1
	})
	judged.not = judged.not[:min(len(judged.not), maxNotExempt)]
	return judged
}

// concerns reports whether an exemption may be for the request at all: that of a namespace is for
// requests for objects of the namespace. A Namespace is none of these, although requests for it name
// it as theirs.
func (j *judging) concerns(x *rule.Exempting) bool {
	own, r := x.Ref.Namespace, j.request
	if own == "" {
		return true
	}
	if r.Namespace != own || r.Resource.Group == "" && r.Resource.Resource == "namespaces" || r.Kind.Group == "" && r.Kind.Kind == "Namespace" {
		return false
	}
	metadata, _ := j.tree["metadata"].(map[string]any)
	in, _ := metadata["namespace"].(string)
	return in == "" || in == own
}

// excludes returns why an exemption is not for the request, empty if it is, and whether a reason is that
// it is for other objects.
func (j *judging) excludes(ctx context.Context, x *rule.Exempting) (whys []string, elsewhere bool) {
	if now := j.engine.options.Now(); !now.Before(x.Expires) {
		whys = append(whys, fmt.Sprintf("it expired %s ago", duration.HumanDuration(now.Sub(x.Expires))))
	}
	skipped, elsewhere := j.excluding(ctx, j.evaluation, x.Applies)
	if len(skipped) > 0 && j.of != nil {
		// A pod that a workload would make is exempt if the workload is.
		if ofWorkload, others := j.excluding(ctx, j.of, x.Applies); len(ofWorkload) < len(skipped) {
			skipped, elsewhere = ofWorkload, others
		}
	}
	if whys = append(whys, skipped...); len(whys) >= j.clauses {
		return whys, elsewhere
	}
	if len(x.Images) > 0 {
		if why := j.lacksContainers(x.Images); why != "" {
			whys = append(whys, why)
		}
	}
	return whys, elsewhere
}

// excluding returns why programs of an exemption skip the request of an evaluation, which all of them are
// about, and whether a reason is that they are for other objects.
func (j *judging) excluding(ctx context.Context, on *evaluation, applies []rule.Rule) (whys []string, elsewhere bool) {
	for i := range applies {
		if len(whys) >= j.clauses {
			break
		}
		more, others := on.skips(ctx, &applies[i])
		whys, elsewhere = append(whys, more...), elsewhere || others
	}
	return whys, elsewhere
}

// skips returns why a program of an exemption skips the request, and whether a reason is that it is for
// other objects.
func (d *evaluation) skips(ctx context.Context, applies *rule.Rule) (whys []string, elsewhere bool) {
	unknown := func(err error) ([]string, bool) {
		return []string{fmt.Sprintf("whether it is for the request is not known: %v", err)}, false
	}
	object, old := d.readPaths([]*rule.Rule{applies})
	if err := errors.Join(d.widen(object), d.widenOld(old)); err != nil {
		return unknown(err)
	}
	// Its selectors are about the object as the rule got it.
	began := d.began
	d.began = nil
	defer func() { d.began = began }()
	res, err := runRule(ctx, d, applies, time.Now())
	switch {
	case err != nil:
		return unknown(err)
	case res.skipped == "":
		return nil, false
	case len(res.checks) == 0:
		return []string{res.skipped}, false
	}
	whys = make([]string, len(res.checks))
	for i := range res.checks {
		c := &res.checks[i]
		whys[i] = c.Message
		elsewhere = elsewhere || c.Name != rule.ExemptionSubjects && !c.Failed
	}
	return whys, elsewhere
}

// narrow has the rule run again without what is exempt.
func (j *judging) narrow(ctx context.Context, partial []*rule.Exempting, judged *judgement) {
	var both []*rule.Exempting
	for _, x := range partial {
		switch {
		case len(x.Images) == 0:
			j.exempt = append(j.exempt, x.Validations...)
		case len(x.Validations) == 0:
			j.images = append(j.images, x.Images...)
		default:
			both = append(both, x)
		}
	}
	used := j.validationsWithout(ctx, both)
	res, err := j.said, error(nil)
	if len(j.exempt) > 0 || len(j.images) > 0 {
		res, err = j.again(ctx, j.images)
	}
	if err == nil {
		var more []*rule.Exempting
		res, more = j.restWithout(ctx, both, res)
		used = append(used, more...)
	}
	if len(j.exempt) == 0 && len(j.images) == 0 && len(used) == 0 {
		judged.useless(partial)
		return
	}
	same := j.failed == nil && res.message == j.said.message && len(res.checks) == len(j.said.checks)
	if err != nil || same {
		judged.useless(partial)
		return
	}
	judged.res, judged.err, judged.exempt = res, nil, !res.says()
	judged.applied = j.applied(partial, used, res.checks)
}

// validationsWithout adds to the exempt validations those that hold without the containers which
// exemptions from them exempt. It returns the exemptions because of which they do.
func (j *judging) validationsWithout(ctx context.Context, both []*rule.Exempting) []*rule.Exempting {
	var used []*rule.Exempting
	seen := map[string]bool{}
	for i := range j.said.checks {
		c := &j.said.checks[i]
		if seen[c.Name] || j.exempt.Covers(c) {
			continue
		}
		seen[c.Name] = true
		images := slices.Clone(j.images)
		var covering []*rule.Exempting
		for _, x := range both {
			if x.Validations.Covers(c) {
				images, covering = append(images, x.Images...), append(covering, x)
			}
		}
		if len(covering) == 0 {
			continue
		}
		res, err := j.again(ctx, images)
		if err == nil && !slices.ContainsFunc(res.checks, func(left usher.Check) bool { return left.Name == c.Name }) {
			j.exempt, used = append(j.exempt, c.Name), append(used, covering...)
		}
	}
	return used
}

// restWithout returns what a rule still says as it says it without the containers from whose validation exemptions
// exempt, so that a message does not name these, and the exemptions because of which it does. These have to cover all
// that it still says: whatever else it validates is about all containers.
func (j *judging) restWithout(ctx context.Context, both []*rule.Exempting, rest result) (result, []*rule.Exempting) {
	images := slices.Clone(j.images)
	var covering []*rule.Exempting
	for _, x := range both {
		if !slices.ContainsFunc(rest.checks, func(c usher.Check) bool { return !x.Validations.Covers(&c) }) {
			images, covering = append(images, x.Images...), append(covering, x)
		}
	}
	if j.failed != nil || len(rest.checks) == 0 || len(covering) == 0 {
		return rest, nil
	}
	res, err := j.again(ctx, images)
	fresh := func(c usher.Check) bool {
		return !slices.ContainsFunc(rest.checks, func(said usher.Check) bool { return said.Name == c.Name })
	}
	if err != nil || res.message == rest.message || !res.says() || slices.ContainsFunc(res.checks, fresh) {
		return rest, nil
	}
	return res, covering
}

// useless says of exemptions that they are for the request and make no difference.
func (j *judgement) useless(partial []*rule.Exempting) {
	for _, x := range partial {
		why := "it exempts from other validations of the policy"
		if len(x.Images) > 0 {
			why = "the request is no better without the containers that it exempts"
		}
		not := usher.NotExempt{PolicyRef: x.Ref, Why: []string{why}}
		j.not, j.nearly = append(j.not, not), append(j.nearly, not)
	}
}

// errReruns is the error of a rule with too many exemptions that are partly for a request.
var errReruns = errors.New("too many exemptions are for some validations or containers of the request")

// again runs the rule without the exempt validations, on the object without containers of images.
func (j *judging) again(ctx context.Context, images []rule.Pattern) (result, error) {
	if j.reruns++; j.reruns > maxReruns {
		return result{}, errReruns
	}
	tree, old, memo := j.tree, j.old, j.memo
	defer func() { j.tree, j.old, j.memo, j.less = tree, old, memo, nil }()
	if len(images) > 0 {
		j.memo = &rule.Memo{}
		at := j.podSpec()
		j.tree, _ = withoutContainers(tree, at, images)
		j.old, _ = withoutContainers(old, at, images)
	}
	j.less = j.exempt
	if j.less == nil {
		j.less = rule.Validations{}
	}
	return runRule(ctx, j.evaluation, j.rule, time.Now())
}

// says reports whether a rule has said something from which a request can be exempt.
func (r *result) says() bool {
	effect := func(c usher.Check) bool { return !ignored(c) }
	return r.rejected || len(r.patch) > 0 || len(r.warnings) > 0 || slices.ContainsFunc(r.checks, effect)
}

// text is what a rule has said, in one line.
func (r *result) text() string {
	if said := cmp.Or(r.message, r.note); said != "" {
		return said
	}
	texts := make([]string, len(r.checks))
	for i := range r.checks {
		texts[i] = r.checks[i].Message
	}
	return strings.Join(texts, "; ")
}

// silence returns the result of a rule from which the request is exempt: values that the policy has
// for the audit log in any case remain.
func (r *result) silence() result {
	return result{audit: slices.DeleteFunc(slices.Clone(r.audit), func(a rule.Annotation) bool { return a.Failure })}
}

// tell adds what follows from exemptions to a result and to its finding. before is what the rule has
// said without them.
func (j *judgement) tell(before string, res *result, f *usher.Finding) {
	for _, x := range j.applied {
		f.Exemptions = append(f.Exemptions, usher.Exemption{PolicyRef: x.Ref, Reason: x.Reason, Owner: x.Owner, ExpiresAt: x.Expires, Checks: x.covered})
		switch {
		case x.Action == rule.ExemptWarn:
			res.warnings = append(res.warnings, fmt.Sprintf("exempt from %s until %s (%s)", f.Policy, x.Expires.UTC().Format(time.RFC3339), x.Ref))
		case x.Action == rule.ExemptAudit && !f.Confidential:
			res.audit = append(res.audit, rule.Annotation{Key: exempted, Value: before, Joined: true})
		}
	}
	if j.exempt {
		return
	}
	f.NotExempt = j.not
	if nearly := j.nearly; len(nearly) == 1 && f.Denies() {
		res.warnings = append(res.warnings, fmt.Sprintf("%s does not exempt from %s: %s", nearly[0].PolicyRef, f.Policy, nearly[0].Why[0]))
	}
}
