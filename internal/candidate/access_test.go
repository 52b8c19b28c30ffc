package candidate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule"
)

// accessPolicy is a policy about access to secrets, and to everything of kube-proxy; of a namespace if that is
// not empty.
func accessPolicy(namespace, name, spec string) string {
	kind, metadata := "ClusterAuthorizationPolicy", "name: "+name
	if namespace != "" {
		kind, metadata = "AuthorizationPolicy", metadata+", namespace: "+namespace
	}
	return fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {%s}, spec: {subjects: [{users: [jane, ann]}], rules: [{verbs: [get, list], apiGroups: [""], resources: [secrets]}], %s}}`, kind, metadata, spec)
}

const removesA = "remove: true, replaces: {kind: ClusterAuthorizationPolicy, name: a}"

// accessChanges are candidates for authorization policies, with the policies in force.
func accessChanges() map[string]struct {
	inForce   []string
	candidate string
} {
	a := func(spec string) string { return accessPolicy("", "a", spec) }
	platform := accessPolicy("", "p", `tier: platform, effect: Deny, unless: [{name: ann, cel: "request.user == 'ann'"}]`)
	return map[string]struct {
		inForce   []string
		candidate string
	}{
		"a new denial":                        {nil, proposal("", "", a("effect: Deny"))},
		"a new denial behind another":         {[]string{platform}, proposal("", "", a("effect: Deny"))},
		"a new permission":                    {nil, proposal("", "", a("effect: Allow"))},
		"a permission that a denial prevents": {[]string{platform}, proposal("", "", a("effect: Allow"))},
		"no opinion about what is allowed":    {[]string{accessPolicy("", "b", "effect: Allow")}, proposal("", "", a("effect: NoOpinion"))},
		"the removal of a denial":             {[]string{a("effect: Deny")}, proposal("", removesA)},
		"a removal before another":            {[]string{a("effect: Deny"), accessPolicy("", "b", "effect: Allow")}, proposal("", removesA)},
		"from Deny to Audit":                  {[]string{a("effect: Deny")}, proposal("", "", a("effect: Deny, enforcement: Audit"))},
		"from Allow to Deny":                  {[]string{a("effect: Allow")}, proposal("", "", a("effect: Deny"))},
		"to another tier":                     {[]string{a("effect: Deny"), accessPolicy("", "b", "effect: Allow, tier: platform")}, proposal("", "", a("effect: Deny, tier: platform"))},
		"the same":                            {[]string{a("effect: Deny")}, proposal("", "", a("effect: Deny"))},
		"a condition that fails":              {nil, proposal("", "", a(`effect: Deny, when: [{name: broken, cel: "request.extra['x'][0] == 'y'"}]`))},
		"a policy of a namespace":             {nil, proposal("shop", "", accessPolicy("shop", "a", "effect: Allow"))},
		"both kinds":                          {nil, proposal("", "", a("effect: Deny"), objectPolicy("", "p", denies))},
		"a denial that is not confirmed yet":  {nil, proposal("", "", a("effect: Deny, confirmWithin: 1s"))},
	}
}

func accessSession() []*usher.Request {
	var requests []*usher.Request
	for _, user := range []string{"jane", "ann", "joe"} {
		for _, namespace := range []string{"shop", "blog", ""} {
			for _, verb := range []string{"get", "list", "delete"} {
				r := &usher.Request{
					Phase: usher.Authorize, User: usher.User{Name: user}, Namespace: namespace,
					Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Access: &usher.Access{Verb: verb},
				}
				if verb == "get" {
					r.Name = "s"
				}
				requests = append(requests, r)
			}
		}
	}
	return requests
}

// TestAccessAsInForce: what candidates count of a session of an authorizer is how its answers differ once they
// are in force.
func TestAccessAsInForce(t *testing.T) {
	t.Parallel()
	for reason, change := range accessChanges() {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			inForce, c := all(t, change.inForce), compiled(t, change.candidate)
			e := candidate.New(candidate.Options{Facts: facts(), Access: &authzengine.Options{}})
			e.Update(append(inForce, c), func() []compile.Compiled { return nil })
			next := append([]compile.Compiled(nil), c.Candidate.Policies...)
			for _, p := range inForce {
				if p.Ref != c.Candidate.Replaces && !contains(c.Candidate.Policies, p.Ref) {
					next = append(next, p)
				}
			}
			was := authzengine.New(authzindex.New(compile.Access(inForce)), authzengine.Options{})
			is := authzengine.New(authzindex.New(compile.Access(next)), authzengine.Options{})
			var want rule.CandidateCounts
			differ := false
			for _, r := range accessSession() {
				for _, only := range []usher.Verdict{"", usher.Deny, usher.Allow} {
					before, after := answered(t, was, r, only), answered(t, is, r, only)
					differ = differ || before != after
					switch {
					case before == after:
					case after == usher.Deny:
						want.NewlyDenied++
					case after == usher.Allow:
						want.NewlyAllowed++
					default:
						want.NoOpinion++
					}
					e.OfferAccess(r, only)
				}
			}
			got := counted(t, e)
			if got.Skipped > 0 || got.Seen == 0 || (got.Errors > 0) != (reason == "a condition that fails") {
				t.Errorf("counted %+v", got)
			}
			got.Seen, got.Errors = 0, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-in force +counted:\n%s", diff)
			}
			if same := reason == "the same" || reason == "a permission that a denial prevents"; !differ && !same && reason != "a new denial behind another" {
				t.Error("nothing differs")
			}
		})
	}
}

// answered returns the answer of an endpoint.
func answered(t *testing.T, e usher.Decider, r *usher.Request, only usher.Verdict) usher.Verdict {
	t.Helper()
	if d := decided(t, e, r); only == "" || d.Verdict == only {
		return d.Verdict
	}
	return usher.NoOpinion
}

// TestAccessFollows: a candidate goes on counting when an authorization policy changes that it does not
// replace, and decides among those that are in force then.
func TestAccessFollows(t *testing.T) {
	t.Parallel()
	none := func() []compile.Compiled { return nil }
	e := candidate.New(candidate.Options{Access: &authzengine.Options{}})
	c := compiled(t, proposal("", "", accessPolicy("", "a", "effect: Deny")))
	r := accessSession()[0]
	e.Update([]compile.Compiled{c}, none)
	e.OfferAccess(r, "")
	counted(t, e)
	e.Update([]compile.Compiled{c, compiled(t, accessPolicy("", "b", "effect: Deny"))}, none)
	e.OfferAccess(r, "")
	if got, want := counted(t, e), (rule.CandidateCounts{Seen: 2, NewlyDenied: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestNoAuthorizer: a candidate for an authorization policy is not evaluated where nothing is authorized, and
// says so.
func TestNoAuthorizer(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{})
	e.Update([]compile.Compiled{compiled(t, proposal("", "", accessPolicy("", "a", "effect: Deny")))}, func() []compile.Compiled { return nil })
	e.OfferAccess(accessSession()[0], "")
	if s := e.States()[0]; s.NotEffective == "" || s.Counts != (rule.CandidateCounts{}) || e.Waiting() > 0 {
		t.Errorf("got %+v", s)
	}
}

// TestAccessBounds: requests to authorize wait in the turn of who sends them, whatever namespaces they name.
func TestAccessBounds(t *testing.T) {
	t.Parallel()
	e := candidate.New(candidate.Options{Access: &authzengine.Options{}})
	e.Update([]compile.Compiled{compiled(t, proposal("", "", accessPolicy("", "a", "effect: Deny")))}, func() []compile.Compiled { return nil })
	const n = 2000
	for i := range n {
		r := *accessSession()[0]
		r.Namespace = fmt.Sprint("n", i)
		e.OfferAccess(&r, "")
	}
	if waiting := e.Waiting(); waiting > 4<<20 {
		t.Errorf("%d bytes wait", waiting)
	}
	ann := *accessSession()[9]
	e.OfferAccess(&ann, "")
	if got := counted(t, e); got.Seen+got.Skipped != n+1 || got.Skipped == 0 || got.NewlyDenied != got.Seen {
		t.Errorf("counted %+v", got)
	}
}

// TestNoAccessCandidates: without candidates for authorization policies nothing is allocated.
func TestNoAccessCandidates(t *testing.T) {
	e := candidate.New(candidate.Options{Access: &authzengine.Options{}})
	e.Update(all(t, []string{proposal("", "", objectPolicy("", "p", denies))}), func() []compile.Compiled { return nil })
	r := accessSession()[0]
	if n := testing.AllocsPerRun(100, func() { e.OfferAccess(r, "") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
