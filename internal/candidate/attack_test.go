package candidate_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/rule"
)

// secret is in what requests and messages have besides names.
const secret = "hunter2"

// fillingOf returns the n-th candidate of a tenant who fills whatever takes names, numbers and messages.
func fillingOf(t *testing.T, namespace string, n int) compile.Compiled {
	t.Helper()
	name := fmt.Sprintf("a%0252d", n)
	message := strings.Repeat(secret+" ", 600)
	policy := objectPolicy(namespace, name, fmt.Sprintf(`validations: [{expression: "false", messageExpression: 'object.data.x + %q'}, {expression: "object.data.none == '1'"}]`, message))
	return compiled(t, strings.Replace(proposal(namespace, "", policy), "name: c,", "name: "+name+",", 1))
}

// of is a request of a user about an object of a namespace, with a secret in it.
func of(t *testing.T, namespace, name, user string) *usher.Request {
	t.Helper()
	r := *session(t)[18]
	r.Namespace, r.Name, r.User = namespace, name, usher.User{Name: user, Groups: []string{secret}}
	r.Object = usher.RawObject(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"x":%q}}`, name, namespace, secret))
	return &r
}

// TestTenantFills: a tenant with more candidates than are evaluated, with the longest names, long messages, and requests
// that all of them deny, fills neither what others count nor their last differences, shows nobody values of objects, and
// sees nothing of other namespaces.
func TestTenantFills(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ring := &recent.Ring{}
	e := candidate.New(candidate.Options{
		Facts: facts(), Engine: engine.Options{FailurePolicy: usher.Fail}, Differs: ring.Differs, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	neighbours := []string{"shop", "store", "depot", "bank"}
	all := []compile.Compiled{fine(t, "")}
	for _, namespace := range neighbours {
		all = append(all, fine(t, namespace))
	}
	for i := range candidate.Most + 20 {
		all = append(all, fillingOf(t, "evil", i))
	}
	e.Update(all, func() []compile.Compiled { return nil })
	const attacks = 40
	for _, namespace := range neighbours {
		offer(e, of(t, namespace, "theirs", "jane"))
	}
	for range attacks {
		offer(e, of(t, "evil", strings.Repeat("x", 4096), strings.Repeat("eve", 2000)))
	}
	e.Drain(t.Context())

	seen := map[string]int64{}
	for _, s := range e.States() {
		if s.Ref.Namespace == "evil" {
			seen["evil"] += s.Counts.Seen
			if s.Counts.Seen+s.Counts.Skipped > attacks || strings.Contains(fmt.Sprint(s), secret) || strings.Contains(fmt.Sprint(s), "shop") {
				t.Fatalf("a candidate of the tenant has %+v", s)
			}
			continue
		}
		seen[s.Ref.Namespace] = s.Counts.Seen
		if s.Counts.Skipped > 0 || s.NotEffective != "" {
			t.Errorf("of %q: %+v", s.Ref.Namespace, s)
		}
	}
	if seen[""] != int64(len(neighbours)+attacks) || seen["evil"] < recent.Size {
		t.Errorf("seen: %v", seen)
	}
	keeping := 0
	for _, namespace := range append(neighbours, "evil") {
		want := "theirs"
		if namespace == "evil" {
			want = "xxx"
		} else if seen[namespace] != 1 {
			t.Errorf("in %s, %d requests were seen", namespace, seen[namespace])
		}
		kept, _ := ring.Last(recent.Size, &recent.Filter{Namespace: namespace}).Next(make([]*recent.Decision, 0, recent.Size))
		by := map[string]bool{}
		for _, d := range kept {
			by[d.Candidate.Namespace] = true
			line, err := d.JSON()
			if err != nil || d.Namespace != namespace || d.Candidate.Namespace != namespace && d.Candidate.Namespace != "" || !strings.HasPrefix(d.Name, want) || strings.Contains(string(line), secret) {
				t.Fatalf("in %s: %v: %s", namespace, err, line)
			}
		}
		if by[namespace] {
			keeping++
		} else if namespace == "evil" {
			t.Errorf("of the tenant, no difference is kept")
		}
	}
	// A hash of its name, which nobody can predict, may give a neighbour the tenant's share.
	if keeping < len(neighbours)-1 {
		t.Errorf("differences are kept of %d namespaces of %d", keeping, len(neighbours)+1)
	}
	if ring.Bytes() > recent.MaxBytes || e.Waiting() != 0 || log.Len() > 0 {
		t.Errorf("%d bytes are kept, %d wait, and the log has %q", ring.Bytes(), e.Waiting(), log.String())
	}
}

// TestTenantsBeginNoCountingAgain: what tenants write changes how policies in force decide about their namespace, and
// neither hides what a candidate of the cluster has counted nor fills its status with versions. That of their own
// namespace begins again.
func TestTenantsBeginNoCountingAgain(t *testing.T) {
	t.Parallel()
	none := func() []compile.Compiled { return nil }
	allows := func(spec string) string { return objectPolicy("", "p", spec+", namespaceExemptions: Allow") }
	exempt := func(name, expression string) compile.Compiled {
		return compiled(t, fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: PolicyExemption, metadata: {name: %s, namespace: shop}, spec: {policyRefs: [{kind: ClusterObjectPolicy, name: p}, {kind: ObjectPolicy, name: own}],
matchConditions: [{name: has, expression: %q}], reason: r, owner: o, expiresAt: "2999-01-01T00:00:00Z"}}`, name, expression))
	}
	base := []compile.Compiled{
		compiled(t, allows(warns)), compiled(t, objectPolicy("shop", "own", warns)),
		compiled(t, proposal("", replacesP, allows(denies))), compiled(t, proposal("shop", "", objectPolicy("shop", "own", denies))),
	}
	e := candidate.New(candidate.Options{Facts: facts(), Engine: engine.Options{FailurePolicy: usher.Fail}})
	states := func() (cluster, own rule.CandidateState) {
		for _, s := range e.States() {
			if s.Ref.Namespace == "" {
				cluster = s
			} else {
				own = s
			}
		}
		return cluster, own
	}
	ask := func() {
		for _, r := range session(t) {
			offer(e, r)
		}
		e.Drain(t.Context())
	}
	e.Update(base, none)
	ask()
	before, own := states()
	if before.Counts.NewlyDenied == 0 || own.Counts.NewlyDenied == 0 {
		t.Fatalf("nothing is denied: %+v, %+v", before, own)
	}
	for i := range 3 {
		e.Update(append(base, exempt("e", "false"), exempt(fmt.Sprint("e", i), "false")), none)
	}
	after, own := states()
	if after.Counts != before.Counts || !after.Since.Equal(before.Since) || len(after.Compared) != 1 {
		t.Errorf("of the cluster: -before +after:\n- %+v\n+ %+v", before, after)
	}
	if own.Counts != (rule.CandidateCounts{}) || len(own.Compared) != 3 {
		t.Errorf("of the namespace: %+v", own)
	}
	// The exemptions count nevertheless.
	e.Update(append(base, exempt("e", "true")), none)
	ask()
	if exempt, _ := states(); exempt.Counts.Seen <= before.Counts.Seen || exempt.Counts.NewlyDenied != before.Counts.NewlyDenied {
		t.Errorf("what is exempt is counted as denied: %+v, before %+v", exempt.Counts, before.Counts)
	}
}
