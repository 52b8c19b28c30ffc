package judge_test

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

// eachCase calls f with the cases of the corpora that are about an object, and an object.
func eachCase(t *testing.T, f func(t *testing.T, c *policytest.Case, s *policytest.Setup, r *usher.Request)) {
	t.Helper()
	library, err := filepath.Glob("../../../library/*/cases")
	if err != nil {
		t.Fatal(err)
	}
	packs, err := policytest.Load(library...)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := policytest.Load(
		"../../policytest/testdata/kinitiras", "../../policytest/testdata/semantics", "../../policytest/testdata/vap", "../../policytest/testdata/object",
		"../../policytest/testdata/exempt", "../../../examples/cases", "../../../examples/cel/cases", "../../../examples/object-policies/cases", "../../../examples/cookbook",
	)
	if err != nil {
		t.Fatal(err)
	}
	// Of the packs some: they are alike.
	for i := 0; i < len(packs); i += 12 {
		cases = append(cases, packs[i])
	}
	for _, c := range cases {
		r, err := c.Request.For(c.Phase)
		if err != nil || r.Object == nil || r.Subresource != "" || c.Skip != "" {
			continue
		}
		setup, err := c.Setup(t.Context())
		if err != nil {
			continue // The case is about that.
		}
		t.Run(c.Name, func(t *testing.T) { f(t, c, setup, r) })
		setup.Close()
	}
}

func kindOf(r *usher.Request) result.Kind {
	return result.Kind{Resource: r.Resource, Kind: r.Kind.Kind, Namespaced: r.Namespace != "" && r.Kind.Kind != "Namespace"}
}

// withoutFacts leaves out which facts were used: of several policies that use facts each is said to
// have used all.
var withoutFacts = cmpopts.IgnoreFields(judge.Judgement{}, "Facts")

// TestCorpus judges the objects of all cases.
func TestCorpus(t *testing.T) {
	t.Parallel()
	tested := corpus{verdicts: map[usher.Outcome]int{}, random: rand.New(rand.NewPCG(1, 2))}
	eachCase(t, func(t *testing.T, c *policytest.Case, s *policytest.Setup, r *usher.Request) {
		tested.parts(t, c, s, r)
		tested.asAdmission(t, c, s, r)
	})
	t.Logf("%d judged, %d by a part of the object; in admission %v", tested.judged, tested.partial, tested.verdicts)
	if tested.judged < 500 || tested.partial < tested.judged/2 {
		t.Errorf("%d objects are judged, %d by a part of them", tested.judged, tested.partial)
	}
	for outcome, least := range map[usher.Outcome]int{usher.Passed: 100, usher.Rejected: 100, usher.Changed: 100, usher.Failed: 30, usher.Exempted: 10} {
		if tested.verdicts[outcome] < least {
			t.Errorf("%d rules %s, fewer than %d", tested.verdicts[outcome], outcome, least)
		}
	}
}

// A corpus counts what was tested.
type corpus struct {
	judged, partial int
	verdicts        map[usher.Outcome]int
	random          *rand.Rand
}

// parts compares what is said about whole objects with what is said about the parts at the paths of
// a plan, and what all policies say with what each says alone. Objects are also judged without some
// of their fields.
func (tested *corpus) parts(t *testing.T, c *policytest.Case, s *policytest.Setup, r *usher.Request) {
	t.Helper()
	j := judge.New(compile.Order(s.Compiled), judge.Options{Facts: s.Facts, Engine: optionsOf(c)})
	plan := j.Plan(kindOf(r))
	if plan == nil {
		return
	}
	tested.judged++
	if !plan.Paths().Whole() {
		tested.partial++
	}
	for _, object := range []*usher.Object{r.Object, r.OldObject} {
		if object == nil {
			continue
		}
		compareParts(t, plan, object)
		tree, err := object.Tree()
		if err != nil {
			t.Fatal(err)
		}
		changed, _ := tested.without(tree).(map[string]any)
		compareParts(t, plan, usher.TreeObject(changed))
	}
}

// without returns a copy of a value in which some fields are missing, or are changed.
func (tested *corpus) without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		some := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if tested.random.IntN(12) > 0 {
				some[key] = tested.without(v[key])
			}
		}
		return some
	case []any:
		some := []any{}
		for _, item := range v {
			if tested.random.IntN(12) > 0 {
				some = append(some, tested.without(item))
			}
		}
		return some
	case string:
		if tested.random.IntN(12) == 0 {
			return v + "x"
		}
	case int64:
		return v + int64(tested.random.IntN(2))
	}
	return value
}

func compareParts(t *testing.T, plan *judge.Plan, object *usher.Object) {
	t.Helper()
	whole, err := object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	part, err := usher.RawObject(raw).Part(plan.Paths())
	if err != nil {
		t.Fatal(err)
	}
	all := say(t, plan, whole, nil)
	if diff := cmp.Diff(all, say(t, plan, part, nil), cmp.Comparer(sameRef), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("of %v and its part %v: -whole +part:\n%s", whole, part, diff)
	}
	var each []judge.Judgement
	for _, policy := range plan.Policies() {
		each = append(each, say(t, plan, part, []usher.PolicyRef{policy})...)
	}
	if diff := cmp.Diff(all, each, withoutFacts, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("of %v: -all policies +each alone:\n%s", whole, diff)
	}
}

func sameRef(a, b fact.Ref) bool { return a.Key() == b.Key() }

func say(t *testing.T, plan *judge.Plan, object map[string]any, some []usher.PolicyRef) []judge.Judgement {
	t.Helper()
	said, err := plan.Judge(t.Context(), object, some)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// optionsOf are those for a case. A rule has time enough on a busy machine, too.
func optionsOf(c *policytest.Case) engine.Options {
	o := engine.Options{RuleTimeout: time.Minute}
	if c.Now != nil {
		o.Now = func() time.Time { return *c.Now }
	}
	return o
}

// asAdmission compares what is said about an object with what admission decides if an ordinary user
// creates it.
func (tested *corpus) asAdmission(t *testing.T, c *policytest.Case, s *policytest.Setup, r *usher.Request) {
	t.Helper()
	j := judge.New(compile.Order(s.Compiled), judge.Options{Facts: s.Facts, Engine: optionsOf(c), HTTP: true})
	plan := j.Plan(kindOf(r))
	creation := *r
	creation.Operation, creation.OldObject, creation.Options, creation.DryRun = usher.Create, nil, nil, false
	creation.Requested, creation.RequestedResource = schema.GroupVersionKind{}, schema.GroupVersionResource{}
	creation.User = usher.User{Name: "nobody-in-particular"}
	tree, err := r.Object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	if name, _ := metadata["name"].(string); name != creation.Name || kindOf(r).Namespaced && namespace != creation.Namespace {
		return // It is no stored object.
	}
	d, err := engine.New(index.New(s.Rules), s.Facts, optionsOf(c)).Decide(t.Context(), &creation)
	if err != nil {
		t.Fatal(err)
	}
	var said []judge.Judgement
	if plan != nil {
		said = say(t, plan, tree, nil)
	}
	changing := map[usher.PolicyRef]bool{}
	for _, f := range d.Findings {
		known := slices.ContainsFunc(j.Unjudged(), func(u judge.Unjudged) bool { return u.Policy == f.Policy })
		if f.Outcome == usher.Changed {
			changing[f.Policy] = true
		}
		if f.Policy == (usher.PolicyRef{}) || known || len(changing) > 1 {
			// In admission each policy sees what others have changed before.
			continue
		}
		tested.verdicts[f.Outcome]++
		if f.Outcome == usher.Exempted && exemptsUsers(s.Rules, f.Policy) {
			f.Outcome = usher.Rejected
		}
		compareFinding(t, &f, said)
	}
}

// exemptsUsers reports whether some exemption from a policy asks what users may do: nobody can tell of
// an object that exists.
func exemptsUsers(rules []rule.Rule, policy usher.PolicyRef) bool {
	return slices.ContainsFunc(rules, func(r rule.Rule) bool {
		return r.Policy == policy && slices.ContainsFunc(r.Exemptions, func(x rule.Exempting) bool {
			return slices.ContainsFunc(x.Applies, func(a rule.Rule) bool { return a.DependsOn(usher.Create).Any(rule.OnAccess) })
		})
	})
}

// compareFinding compares a finding of admission with what its policy says in an audit.
func compareFinding(t *testing.T, f *usher.Finding, said []judge.Judgement) {
	t.Helper()
	i := slices.IndexFunc(said, func(s judge.Judgement) bool { return s.Policy == f.Policy })
	if i < 0 {
		i, said = 0, []judge.Judgement{{}}
	}
	s := &said[i]
	if s.Skip > 0 {
		return // It says why.
	}
	has := func(statuses ...result.Status) bool {
		return slices.ContainsFunc(s.Results, func(r result.Result) bool { return slices.Contains(statuses, r.Status) })
	}
	var right bool
	switch f.Outcome {
	case usher.Rejected:
		right = has(result.Fail, result.Error)
	case usher.Failed:
		right = has(result.Error)
	case usher.Exempted:
		right = has(result.Skip)
	case usher.Changed:
		right = has(result.Warn) || s.Pass > 0
	case usher.Passed:
		right = s.Pass > 0 || len(s.Results) > 0
	case usher.Skipped, usher.WouldDeny:
		right = true
	}
	if !right {
		t.Errorf("admission: %s %s %s %q %v; audit: %+v", f.Outcome, f.Policy, f.Rule, f.Message, f.Err, *s)
	}
}
