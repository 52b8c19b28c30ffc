package candidate_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

func compiled(t *testing.T, text string) compile.Compiled {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.Policy(policy)
	if errs := rule.Errors(c.Problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return c
}

func all(t *testing.T, texts []string) []compile.Compiled {
	t.Helper()
	var cs []compile.Compiled
	for _, text := range texts {
		cs = append(cs, compiled(t, text))
	}
	return cs
}

// objectPolicy is a policy about config maps; of a namespace if that is not empty.
func objectPolicy(namespace, name, spec string) string {
	kind, metadata := "ClusterObjectPolicy", "name: "+name
	if namespace != "" {
		kind, metadata = "ObjectPolicy", metadata+", namespace: "+namespace
	}
	return fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {%s}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [configmaps]}]}, %s}}`, kind, metadata, spec)
}

func proposal(namespace, rest string, policies ...string) string {
	kind, metadata := "ClusterPolicyCandidate", "name: c"
	if namespace != "" {
		kind, metadata = "PolicyCandidate", metadata+", namespace: "+namespace
	}
	if len(policies) > 0 {
		rest += "policies: [" + strings.Join(policies, ", ") + "]"
	}
	return fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {%s}, spec: {%s}}`, kind, metadata, rest)
}

const (
	denies  = `validations: [{expression: "!('x' in object.data)", message: no x}]`
	warns   = denies + `, bindings: [{name: all, validationActions: [Warn]}]`
	others  = `validations: [{expression: "!('z' in object.data)", message: no z}]`
	breaks  = `validations: [{expression: "object.data.y == '1'"}]`
	sets    = `mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/set", value: "%s"}]'}}]`
	exempts = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyExemption, metadata: {name: e}, spec: {policyRefs: [{kind: ClusterObjectPolicy, name: p}],
matchConditions: [{name: has-y, expression: "'y' in object.data"}], reason: r, owner: o, expiresAt: "2999-01-01T00:00:00Z"}}`
	replacesP = "replaces: {kind: ClusterObjectPolicy, name: p}, "
	vap       = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}, validations: [{expression: "!('x' in object.data)"}]}}`
	binding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [%s]}}`
	kcloud  = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: k}, spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}],
overrideRules: [{targetOperations: [CREATE], overriders: {plaintext: [{path: /data/k, op: add, value: "%s"}]}}]}}`
)

// changes are candidates, with the policies in force.
func changes() map[string]struct {
	inForce   []string
	candidate string
} {
	p := func(spec string) string { return objectPolicy("", "p", spec) }
	other := objectPolicy("", "other", others)
	return map[string]struct {
		inForce   []string
		candidate string
	}{
		"a new policy":                 {nil, proposal("", "", p(denies))},
		"a new policy beside another":  {[]string{other}, proposal("", "", p(denies))},
		"from Deny to Warn":            {[]string{p(denies), other}, proposal("", replacesP, p(warns))},
		"from Warn to Deny":            {[]string{p(warns)}, proposal("", replacesP, p(denies))},
		"removed":                      {[]string{p(denies), other}, proposal("", replacesP+"remove: true")},
		"one that fails":               {nil, proposal("", "", p(breaks))},
		"one that failed before":       {[]string{p(breaks)}, proposal("", replacesP, p(denies))},
		"the same":                     {[]string{p(denies)}, proposal("", replacesP, p(denies))},
		"exempt from the old one":      {[]string{p(warns), exempts}, proposal("", replacesP, p(denies))},
		"an exemption":                 {[]string{p(denies)}, proposal("", "", exempts)},
		"an exemption that is removed": {[]string{p(denies), exempts}, proposal("", "remove: true, replaces: {kind: ClusterPolicyExemption, name: e}")},
		"a mutation":                   {nil, proposal("", "", p(fmt.Sprintf(sets, "a")))},
		"another mutation":             {[]string{p(fmt.Sprintf(sets, "a"))}, proposal("", replacesP, p(fmt.Sprintf(sets, "b")))},
		"the same mutation":            {[]string{p(fmt.Sprintf(sets, "a"))}, proposal("", replacesP, p(fmt.Sprintf(sets, "a")))},
		"suspended":                    {[]string{p(denies)}, proposal("", replacesP, p(denies+", suspend: true"))},
		"an admission policy":          {nil, proposal("", "", vap, fmt.Sprintf(binding, "Deny"))},
		"another binding of one":       {[]string{vap, fmt.Sprintf(binding, "Warn")}, proposal("", "", fmt.Sprintf(binding, "Deny"))},
		"a policy of kinitiras":        {[]string{fmt.Sprintf(kcloud, "a")}, proposal("", "", fmt.Sprintf(kcloud, "b"))},
		"a policy of a namespace":      {[]string{other}, proposal("shop", "", objectPolicy("shop", "p", denies))},
		"a policy of a namespace that requests leave": {[]string{other}, proposal("blog", "", objectPolicy("blog", "p", denies))},
	}
}

func facts() fact.Resolver {
	return fact.Resolvers{fact.Objects: object.FromTrees([]map[string]any{object.Namespace("shop")})}
}

func engineOf(cs []compile.Compiled) *engine.Engine {
	return engine.New(index.New(compile.Order(cs)), facts(), engine.Options{FailurePolicy: usher.Fail})
}

// session returns requests of both phases.
func session(t *testing.T) []*usher.Request {
	t.Helper()
	var requests []*usher.Request
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		for _, operation := range []usher.Operation{usher.Create, usher.Update, usher.Delete} {
			for _, data := range []string{`{}`, `{"x":"1"}`, `{"y":"1"}`, `{"x":"1","y":"1"}`, `{"z":"1"}`, `{"x":"1","z":"1"}`} {
				raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"},"data":%s}`, data)
				r := &usher.Request{
					Phase: phase, Operation: operation, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
					Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "shop", Name: "a", User: usher.User{Name: "jane"},
				}
				if operation != usher.Create {
					r.OldObject = usher.RawObject(raw)
				}
				if operation != usher.Delete {
					r.Object = usher.RawObject(raw)
				}
				requests = append(requests, r)
			}
		}
	}
	return requests
}

// TestAsInForce: what candidates count of a session is how the decisions of the session differ once they
// are in force.
func TestAsInForce(t *testing.T) {
	t.Parallel()
	for reason, change := range changes() {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			inForce, c := all(t, change.inForce), compiled(t, change.candidate)
			e := candidate.New(candidate.Options{Facts: facts(), Engine: engine.Options{FailurePolicy: usher.Fail}})
			offer := e.Update(append(inForce, c), func() []compile.Compiled { return nil })
			// Without what answers show of the policies in force, these decide again.
			again := candidate.New(candidate.Options{Facts: facts(), Engine: engine.Options{FailurePolicy: usher.Fail}})
			again.Update(append(inForce, c), func() []compile.Compiled { return nil })
			var next []compile.Compiled
			for _, p := range inForce {
				if p.Ref != c.Candidate.Replaces && !contains(c.Candidate.Policies, p.Ref) {
					next = append(next, p)
				}
			}
			was, is := engineOf(inForce), engineOf(append(next, c.Candidate.Policies...))
			var want rule.CandidateCounts
			seen := 0
			for _, r := range session(t) {
				before, after := decided(t, was, r), decided(t, is, r)
				offer(r, &before)
				again.Offer(r, &before)
				if len(after.Findings)+len(before.Findings) > 0 {
					seen++
				}
				denied, denies := before.Verdict == usher.Deny, after.Verdict == usher.Deny
				switch {
				case denies && !denied:
					want.NewlyDenied++
				case denied && !denies:
					want.NewlyAllowed++
				case !denied && !reflect.DeepEqual(before.Patch, after.Patch):
					want.Changed++
				}
			}
			got := counted(t, e)
			if diff := cmp.Diff(counted(t, again), got); diff != "" {
				t.Errorf("-decided again +with what the answers show:\n%s", diff)
			}
			if got.Skipped > 0 || got.Seen > int64(seen) {
				t.Errorf("%d were seen of %d at most, and %d skipped", got.Seen, seen, got.Skipped)
			}
			got.Seen, got.Warned, got.Errors = 0, 0, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-in force +counted:\n%s", diff)
			}
		})
	}
}

func contains(all []compile.Compiled, ref usher.PolicyRef) bool {
	for i := range all {
		if all[i].Ref == ref {
			return true
		}
	}
	return false
}

func decided(t *testing.T, e usher.Decider, r *usher.Request) usher.Decision {
	t.Helper()
	d, err := e.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// counted evaluates what waits, and returns what the only candidate has counted.
func counted(t *testing.T, e *candidate.Evaluator) rule.CandidateCounts {
	t.Helper()
	e.Drain(t.Context())
	states := e.States()
	if len(states) != 1 {
		t.Fatalf("%d candidates", len(states))
	}
	return states[0].Counts
}

// TestFactsChange: what a candidate says of facts as they are now is not compared with what the policies in force said of
// them before.
func TestFactsChange(t *testing.T) {
	t.Parallel()
	var current atomic.Value
	in := func(env string) {
		namespace := object.Namespace("shop")
		namespace["metadata"] = map[string]any{"name": "shop", "labels": map[string]any{"env": env}}
		current.Store(fact.Resolver(fact.Resolvers{fact.Objects: object.FromTrees([]map[string]any{namespace})}))
	}
	by := fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
		return current.Load().(fact.Resolver).Resolve(ctx, ref)
	})
	const dev = `validations: [{expression: "namespaceObject.metadata.labels.env == 'dev'", message: %s}]`
	inForce := all(t, []string{objectPolicy("", "p", fmt.Sprintf(dev, "before"))})
	e := candidate.New(candidate.Options{Facts: by, Engine: engine.Options{FailurePolicy: usher.Fail}})
	offer := e.Update(append(inForce, compiled(t, proposal("", replacesP, objectPolicy("", "p", fmt.Sprintf(dev, "after"))))), nil)
	was := engine.New(index.New(compile.Order(inForce)), by, engine.Options{FailurePolicy: usher.Fail})
	r := session(t)[len(session(t))/2]
	in("dev")
	d, err := was.Decide(t.Context(), r)
	if err != nil || d.Verdict != usher.Allow || r.Phase != usher.Validate {
		t.Fatal(d, err)
	}
	offer(r, &d)
	in("prod")
	e.Drain(t.Context())
	if got := counted(t, e); got.Seen != 1 || got.NewlyDenied > 0 {
		t.Errorf("%+v", got)
	}
}

// TestCounts has the counts of some changes, for a session of 36 decisions.
func TestCounts(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]rule.CandidateCounts{
		"from Deny to Warn": {Seen: 18, NewlyAllowed: 4, Warned: 4},
	} {
		change := changes()[reason]
		e := candidate.New(candidate.Options{Facts: facts()})
		e.Update(all(t, append(change.inForce, change.candidate)), func() []compile.Compiled { return nil })
		was := engineOf(all(t, change.inForce))
		for _, r := range session(t) {
			d := decided(t, was, r)
			e.Offer(r, &d)
		}
		if diff := cmp.Diff(want, counted(t, e)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", reason, diff)
		}
	}
}

// TestNotFor: a request that a policy turns out not to be for is not one that its candidate has seen.
func TestNotFor(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{Facts: facts()})
	policy := objectPolicy("", "p", denies+`, matchConditions: [{name: few, expression: "request.operation == 'DELETE'"}]`)
	e.Update(all(t, []string{proposal("", "", policy)}), func() []compile.Compiled { return nil })
	deletions := int64(0)
	for _, r := range session(t) {
		if r.Phase == usher.Validate && r.Operation == usher.Delete {
			deletions++
		}
		e.Offer(r, &usher.Decision{Verdict: usher.Allow})
	}
	if got := counted(t, e); got.Seen != deletions || deletions == 0 {
		t.Errorf("%d were seen, want %d", got.Seen, deletions)
	}
}

// TestBounds: requests that wait take a bounded number of bytes, in all and by namespace, and those that do
// not fit are counted.
func TestBounds(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var held atomic.Int64
	e := candidate.New(candidate.Options{Facts: facts(), Hold: func(n int64) (func(), bool) {
		held.Add(n)
		return func() { held.Add(-n) }, true
	}})
	e.Update(all(t, []string{proposal("", "", objectPolicy("", "p", denies))}), func() []compile.Compiled { return nil })
	offer := func(namespace string, size, n int) {
		for range n {
			r := session(t)[18]
			r.Namespace = namespace
			r.Object = usher.RawObject(fmt.Appendf(nil, `{"data":{"x":%q}}`, strings.Repeat("x", size)))
			e.Offer(r, &usher.Decision{Verdict: usher.Allow})
		}
	}
	skipped := func() int64 { return e.States()[0].Counts.Skipped }
	offer("large", 3*mib, 1)
	if e.Waiting() != 0 || skipped() != 1 {
		t.Errorf("a large request: %d bytes wait, %d are skipped", e.Waiting(), skipped())
	}
	offer("shop", mib, 10)
	if e.Waiting() > 4*mib || skipped() != 8 {
		t.Errorf("one namespace: %d bytes wait, %d are skipped", e.Waiting(), skipped())
	}
	for i := range 10 {
		offer(fmt.Sprint("n", i), mib, 10)
	}
	if e.Waiting() > 16*mib || e.Waiting() != held.Load() {
		t.Errorf("%d bytes wait, %d are held", e.Waiting(), held.Load())
	}
	got := counted(t, e)
	if got.Seen == 0 || got.Seen+got.Skipped != 111 || held.Load() != 0 {
		t.Errorf("%+v, %d bytes are held", got, held.Load())
	}
}

// TestOfANamespace: a candidate of a namespace sees its requests and no others.
func TestOfANamespace(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{Facts: facts()})
	e.Update(all(t, []string{proposal("shop", "", objectPolicy("shop", "p", denies))}), func() []compile.Compiled { return nil })
	for _, namespace := range []string{"shop", "blog", ""} {
		for _, r := range session(t) {
			r.Namespace = namespace
			e.Offer(r, &usher.Decision{Verdict: usher.Allow})
		}
		want := int64(18)
		if got := counted(t, e); got.Seen != want {
			t.Errorf("after requests of %q: %d were seen, want %d", namespace, got.Seen, want)
		}
	}
}

// TestCountingContinues: what differs in nothing goes on counting, and any other version begins again.
func TestCountingContinues(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{Facts: facts()})
	none := func() []compile.Compiled { return nil }
	p, c := compiled(t, objectPolicy("", "p", warns)), compiled(t, proposal("", replacesP, objectPolicy("", "p", denies)))
	e.Update([]compile.Compiled{p, c}, none)
	for _, r := range session(t) {
		e.Offer(r, &usher.Decision{Verdict: usher.Allow})
	}
	seen := counted(t, e)
	e.Update([]compile.Compiled{p, compiled(t, objectPolicy("", "another", denies)), c}, none)
	if got := e.States()[0].Counts; got != seen || got.Seen == 0 {
		t.Errorf("after another policy came: %+v, before %+v", got, seen)
	}
	label := func(text string) compile.Compiled {
		return compiled(t, strings.Replace(text, "metadata: {", "metadata: {labels: {a: b}, ", 1))
	}
	c = label(proposal("", replacesP, objectPolicy("", "p", denies)))
	e.Update([]compile.Compiled{label(objectPolicy("", "p", warns)), c}, none)
	if got := e.States()[0].Counts; got != seen {
		t.Errorf("after labels were written: %+v, before %+v", got, seen)
	}
	e.Update([]compile.Compiled{compiled(t, objectPolicy("", "p", warns+", severity: low")), c}, none)
	if got := e.States()[0].Counts; got != (rule.CandidateCounts{}) {
		t.Errorf("after what it replaces was written again: %+v", got)
	}
	e.Update([]compile.Compiled{c}, none)
	if got := e.States()[0].NotEffective; !strings.Contains(got, "there is no ClusterObjectPolicy p in force") {
		t.Errorf("without what it replaces: %q", got)
	}
}

// TestMost: more candidates than are evaluated say so, and those of one namespace do not take the place of others.
func TestMost(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{})
	var texts []string
	for i := range candidate.Most {
		texts = append(texts, strings.Replace(proposal("shop", "", objectPolicy("shop", "p", denies)), "name: c,", fmt.Sprintf("name: c%d,", i), 1))
	}
	texts = append(texts, proposal("blog", "", objectPolicy("blog", "p", denies)), proposal("", "", objectPolicy("", "p", denies)))
	e.Update(all(t, texts), func() []compile.Compiled { return nil })
	surplus := map[string]int{}
	for _, s := range e.States() {
		if s.NotEffective != "" {
			surplus[s.Ref.Namespace]++
		}
	}
	if diff := cmp.Diff(map[string]int{"shop": 2}, surplus); diff != "" {
		t.Errorf("not evaluated, -want +got:\n%s", diff)
	}
}

// TestNoCandidates: without candidates nothing is allocated.
func TestNoCandidates(t *testing.T) {
	e := candidate.New(candidate.Options{})
	r, d := session(t)[0], &usher.Decision{Verdict: usher.Allow}
	if n := testing.AllocsPerRun(100, func() { e.Offer(r, d) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
