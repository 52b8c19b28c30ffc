package live_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/live"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/internal/audit/result"
)

// The objects of the cluster. Those that the user ann may not read have a word that no answer to her may have.
const (
	ofCluster = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata:
  {name: team, uid: u-team, generation: 2, resourceVersion: "7", managedFields: [{manager: kubectl}], annotations: {usher.dev/proof: "1:abc"}}
spec:
  description: Everything has a team. It is asked when something breaks.
  matchConditions: [{name: not-robots, expression: "!request.userInfo.username.startsWith('robot')"}]
  matchConstraints:
    namespaceSelector: {matchLabels: {env: prod}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  data: [{name: teams, object: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: teams}}]
  validations: [{expression: "object.metadata.?labels.?team.orValue('') in data.teams.data", message: label team names no team, fieldPath: metadata.labels}]
status:
  conditions: [{type: Enforced, status: "True", reason: Enforced, message: every replica enforces this version}, {type: Working, status: "False", reason: RuleFails, message: it fails}]
  problems: [{severity: warning, field: "spec.validations[0]", what: hidden-cluster, do: mend it}]
  lastError: it fails
`
	ofShop = `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: <b>own</b>, namespace: shop}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: "owner\u001b[31m is <script>missing</script>"}]
`
	ofVault = `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: hidden-policy, namespace: vault}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false", message: hidden-message}]
`
	asked = `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: asked-policy, namespace: vault}, spec: {description: hidden, matchConstraints: {}}}`

	namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {env: prod, kubernetes.io/metadata.name: shop}}}`
	teams     = `{apiVersion: v1, kind: ConfigMap, metadata: {name: teams, namespace: shop, uid: u-3, managedFields: [{manager: x}]}, data: {red: "1"}}`
	pod       = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, uid: u-1, labels: {team: blue}}, spec: {containers: []}, status: {phase: Running}}`
	other     = `{apiVersion: v1, kind: Pod, metadata: {name: asked-pod, namespace: vault, labels: {secret: hidden-label}}, spec: {containers: []}}`
	secret    = `{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop}, data: {key: aGlkZGVu}}`
	exemption = `
apiVersion: usher.dev/v1alpha1
kind: PolicyExemption
metadata: {name: until-may, namespace: shop}
spec: {policyRefs: [{kind: ClusterObjectPolicy, name: tea*}], reason: it is old, owner: ann, expiresAt: "2999-01-01T00:00:00Z", matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], resourceNames: [old]}]}}
`
	lease = `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: usher-1, namespace: usher-system, labels: {usher.dev/lease: replica}, annotations: {usher.dev/failing: '[{"uid":"u-team","generation":2,"rule":"spec.validations","error":"no such key","example":"CREATE Pod vault/hidden","count":3,"since":"2030-01-01T00:00:00Z","last":"2030-01-01T00:00:00Z"}]'}}
spec: {holderIdentity: usher-1, renewTime: "2030-01-01T00:00:00.000000Z"}
`
)

func everything() []string {
	return []string{ofCluster, ofShop, ofVault, asked, namespace, teams, pod, other, secret, exemption, lease}
}

func violation(namespace, name, policy string) result.Result {
	return result.Result{
		Object: result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: "u-1"}, Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: policy},
		Rule: "spec.validations[0]", Status: result.Fail, Message: "label team names no team", Severity: "medium",
	}
}

func (r *rig) decide(ring int, namespace, name string, at time.Time) {
	r.rings[ring].Add(&usher.Request{Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: namespace, Name: name, User: usher.User{Name: "jane"}},
		&usher.Decision{Verdict: usher.Deny, Code: 422, Findings: []usher.Finding{{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "team"}, Rule: "spec.validations", Outcome: usher.Rejected}}}, nil, at)
}

// until reads events to the first of a kind, and returns those before it.
func until(t *testing.T, next func() (event, bool), kind string) (before []event, last event) {
	t.Helper()
	for {
		e, ok := next()
		switch {
		case !ok:
			t.Fatalf("the stream ends before %s: %v", kind, before)
		case e.kind == kind:
			return before, e
		}
		before = append(before, e)
	}
}

func (p *page) stream(query string) []event {
	p.t.Helper()
	next, leave := p.follow(query)
	defer leave()
	var all []event
	for {
		e, ok := next()
		if ok {
			all = append(all, e)
		}
		if !ok || e.kind == "current" || e.kind == "gap" || e.kind == "failed" {
			return all
		}
	}
}

// TestTenantSeesNoOtherNamespace: a user with rights in one namespace sees no other one, in any answer, whatever the page
// asks for, and is told what is missing; who may read everything sees it.
func TestTenantSeesNoOtherNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything()...)
	r.audit.Set("shop", []result.Result{violation("shop", "web", "team")})
	r.audit.Set("vault", []result.Result{violation("vault", "hidden-pod", "hidden-policy")})
	r.decide(0, "vault", "hidden-decision", time.Now())
	r.decide(1, "shop", "seen", time.Now())
	for _, user := range []string{"ann", "admin", "nobody"} {
		p := r.open(user)
		var gaps []live.Gap
		for _, namespace := range []string{"", "shop", "vault"} {
			gaps = append(gaps, ask[live.About](p, "live?namespace="+namespace, nil, http.StatusOK).Missing...)
			gaps = append(gaps, ask[live.Listing](p, "live/policies", live.Scope{Namespace: namespace}, http.StatusOK).Missing...)
			gaps = append(gaps, ask[live.Violations](p, "live/violations", live.Selection{Namespace: namespace}, http.StatusOK).Missing...)
			p.stream("namespace=" + namespace)
			p.stream("candidates=true&namespace=" + namespace)
			for _, ref := range []live.Ref{{Kind: "ClusterObjectPolicy", Name: "team"}, {Kind: "ObjectPolicy", Namespace: namespace, Name: "asked-policy"}} {
				if user != "admin" && namespace != "shop" {
					ask[map[string]any](p, "live/policy", live.Named{Ref: ref}, http.StatusForbidden)
				}
				object := &result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "vault", Name: "asked-pod"}
				gaps = append(gaps, ask[live.Opened](p, "live/open", live.Opening{Object: object, Policies: []live.Ref{ref}}, http.StatusOK).Missing...)
			}
		}
		ask[live.Whole](r.open("admin"), "live/policy", live.Named{Ref: live.Ref{Kind: "ClusterObjectPolicy", Name: "team"}}, http.StatusOK)
		seen := p.seen.String()
		if at := strings.Index(seen, "hidden"); (at >= 0) != (user == "admin") {
			t.Errorf("%s sees what is hidden: %.400s", user, seen[max(at-200, 0):])
		}
		if got := strings.Contains(seen, "label team names no team") && strings.Contains(seen, `"seen"`); got != (user != "nobody") {
			t.Errorf("%s sees what is in shop: %v", user, got)
		}
		for _, credential := range []string{p.token, p.secret} {
			if strings.Contains(seen, credential) {
				t.Errorf("%s: the page gets the credentials", user)
			}
		}
		if user != "admin" && !slices.ContainsFunc(gaps, func(g live.Gap) bool { return g.What == "violations" && strings.HasPrefix(g.Run, "usher audit") }) {
			t.Errorf("%s is not told what is missing: %+v", user, gaps)
		}
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	for _, request := range r.api.asked {
		if !strings.HasPrefix(request, "GET ") && !strings.HasSuffix(request, "/selfsubjectaccessreviews") {
			t.Errorf("it sends %s", request)
		}
	}
}

// TestBeginsWhereTheUserMayRead: who may read all namespaces begins with all, others with theirs.
func TestBeginsWhereTheUserMayRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	yes, no := true, false
	for user, want := range map[string]live.About{
		"admin": {Enabled: true, Cluster: "mine", User: "admin", Access: live.Access{Policies: &yes, Violations: &yes, Decisions: &yes, Candidates: &yes}},
		"ann":   {Enabled: true, Cluster: "mine", Namespace: "shop", User: "ann", Access: live.Access{Policies: &no, Violations: &no, Decisions: &no, Candidates: &no}},
	} {
		got := ask[live.About](r.open(user), "live", nil, http.StatusOK)
		if len(got.Replicas) != 2 {
			t.Errorf("%s: replicas %v", user, got.Replicas)
		}
		got.Replicas, got.Missing = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
	p := r.open("admin", func(f *live.Flags) { f.Replicas.Kubeconfig, f.Replicas.Servers = "", nil })
	if got := ask[live.About](p, "live", nil, http.StatusOK); got.Enabled || len(got.Missing) != 1 {
		t.Errorf("without a cluster: %+v", got)
	}
	// With --server alone there are decisions, and no policies.
	p = r.open("admin", func(f *live.Flags) { f.Replicas.Kubeconfig = "" })
	if got := ask[live.Listing](p, "live/policies", live.Scope{}, http.StatusOK); len(got.Missing) != 1 || got.Missing[0].Run != "usher console --from-cluster" {
		t.Errorf("without a kubeconfig: %+v", got)
	}
	if got := p.stream(""); got[len(got)-1].kind != "current" {
		t.Errorf("without a kubeconfig: %v", got)
	}
}

// TestPolicy: one policy has its source as it was written, its problems in place, what it selects and reads, and what
// concerns it.
func TestPolicy(t *testing.T) {
	t.Parallel()
	p := newRig(t, everything()...).open("admin")
	got := ask[live.Whole](p, "live/policy", live.Named{Ref: live.Ref{Kind: "ClusterObjectPolicy", Name: "team"}}, http.StatusOK)
	if row := got.Policy; row.State != "failing" || row.Why != "it fails" || row.Title != "Everything has a team." || row.Kinds != "pods" || row.Action != "Deny" || row.Problems != 1 {
		t.Errorf("the row is %+v", row)
	}
	for _, word := range []string{"managedFields", "proof", "status:", "resourceVersion", "uid"} {
		if strings.Contains(got.Source, word) {
			t.Errorf("the source has %s:\n%s", word, got.Source)
		}
	}
	if len(got.Problems) != 1 || !strings.Contains(strings.Split(got.Source, "\n")[got.Problems[0].Line-1], "- ") || got.Problems[0].Message != "hidden-cluster; mend it" {
		t.Errorf("problems %+v in\n%s", got.Problems, got.Source)
	}
	if want := []string{"CREATE, UPDATE of pods", "in namespaces with env=prod", "if not-robots: !request.userInfo.username.startsWith('robot')"}; cmp.Diff(want, got.Selects) != "" {
		t.Errorf("it selects %q", got.Selects)
	}
	if want := []live.Reading{{As: "data.teams", What: "v1 ConfigMap", Right: "get,list,watch configmaps"}}; cmp.Diff(want, got.Reads) != "" {
		t.Errorf("it reads %+v", got.Reads)
	}
	if len(got.Exemptions) != 1 || got.Exemptions[0].Ref.Name != "until-may" || got.Exemptions[0].Expired {
		t.Errorf("exemptions %+v", got.Exemptions)
	}
	if len(got.Replicas) != 1 || got.Replicas[0].Failing != "spec.validations: no such key (CREATE Pod vault/hidden)" || got.Replicas[0].Failures != 3 || got.Replicas[0].Agrees {
		t.Errorf("replicas %+v", got.Replicas)
	}
	if !slices.Contains(got.Commands, live.Command{Title: "suspend it", Run: `kubectl patch clusterobjectpolicy team --type merge -p '{"spec":{"suspend":true}}'`}) {
		t.Errorf("commands %+v", got.Commands)
	}
	for _, ref := range []live.Ref{{Kind: "Secret", Namespace: "shop", Name: "key"}, {Kind: "ObjectPolicy", Namespace: "../shop", Name: "x"}, {Kind: "ObjectPolicy", Namespace: "shop", Name: "none"}} {
		if said := ask[map[string]string](p, "live/policy", live.Named{Ref: ref}, statusOf(ref)); said["error"] == "" {
			t.Errorf("%v: %v", ref, said)
		}
	}
}

func statusOf(ref live.Ref) int {
	if ref.Namespace == "../shop" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusNotFound
}

// TestViolationsInPages: the page gets all results, in a few answers; where they have changed meanwhile, it is told to begin
// again.
func TestViolationsInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = 10_000
	all := make([]result.Result, many)
	for i := range all {
		all[i] = violation("shop", fmt.Sprintf("pod-%05d", i), []string{"team", "other"}[i%2])
	}
	r.audit.Set("shop", all)
	p := r.open("ann")
	start, answers, count := time.Now(), 0, 0
	var summary result.Summary
	for next := ""; ; answers++ {
		got := ask[live.Violations](p, "live/violations", live.Selection{Namespace: "shop", Continue: next}, http.StatusOK)
		if count += len(got.Items); len(got.Items) > 0 && got.Items[0].Object.UID != "" {
			t.Fatal("it has UIDs")
		}
		if answers == 0 && (len(got.Items) == 0 || len(got.Items) > 500) {
			t.Errorf("the first answer has %d results", len(got.Items))
		}
		summary.Merge(got.Summary)
		if next = got.Continue; next == "" {
			break
		}
	}
	if want := (result.Summary{Pass: 1, Fail: many}); count != many || summary != want || answers > 7 {
		t.Errorf("%d results, %+v, in %d answers", count, summary, answers)
	}
	t.Logf("%d results in %v and %d answers, %d bytes", count, time.Since(start), answers+1, p.seen.Len())
	got := ask[live.Violations](p, "live/violations", live.Selection{Namespace: "shop", Policy: &live.Ref{Kind: "ClusterObjectPolicy", Name: "other"}}, http.StatusOK)
	if len(got.Items) == 0 || slices.ContainsFunc(got.Items, func(v result.Result) bool { return v.Policy.Name != "other" }) {
		t.Errorf("%d results of one policy", len(got.Items))
	}
	r.audit.Set("shop", all[:10])
	if again := ask[live.Violations](p, "live/violations", live.Selection{Namespace: "shop", Continue: got.Continue}, http.StatusOK); !again.Restart || len(again.Items) > 0 {
		t.Errorf("results have changed, and it goes on: %+v", again)
	}
}

// TestDecisionsAreFollowed: those of all replicas are in the order of time, the past ones first; what the page closes ends at
// the replicas, too, and there are few streams at once.
func TestDecisionsAreFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now()
	for i := range 6 {
		r.decide(i%2, "shop", fmt.Sprint("old-", i), now.Add(time.Duration(i)*time.Millisecond))
	}
	p := r.open("ann")
	next, leave := p.follow("namespace=shop&last=4&outcome=denied")
	before, last := until(t, next, "current")
	var names []string
	for _, e := range before {
		var d live.Decision
		if err := json.Unmarshal([]byte(e.data), &d); err != nil || d.Replica == "" || d.Explain != "usher explain --from-cluster OBJECT.yaml --operation CREATE -n shop --as jane --as-group GROUP" {
			t.Errorf("%v: %+v", err, d)
		}
		names = append(names, d.Name)
	}
	if want := []string{"old-2", "old-3", "old-4", "old-5"}; cmp.Diff(want, names) != "" || last.data != `{"replicas":2}` {
		t.Errorf("%v, %s", names, last.data)
	}
	r.decide(0, "vault", "hidden", time.Now())
	r.decide(1, "shop", "new\x1b<b>", time.Now())
	if _, e := until(t, next, "decision"); !strings.Contains(e.data, `"name":"new\u001b\u003cb\u003e"`) {
		t.Errorf("the new one is %s", e.data)
	}
	others := make([]func(), 3)
	for i := range others {
		_, others[i] = p.follow("namespace=shop")
	}
	if response := p.get(p.server.URL + "/api/v1/live/decisions?namespace=shop"); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a fifth stream: status %d", response.StatusCode)
	}
	leave()
	for _, leave := range others {
		leave()
	}
	for deadline := time.Now().Add(time.Minute); r.streams.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("replicas still serve streams that the page has closed")
		}
	}
	for query, want := range map[string]string{"last=x": "failed", "outcome=x": "failed", "namespace=..": "failed", "": "gap"} {
		if got := p.stream(query); got[len(got)-1].kind != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}

// TestOpen: what is opened in the playground is decided as it was in the cluster, by the facts that policies read, and says
// what it lacks.
func TestOpen(t *testing.T) {
	t.Parallel()
	p := newRig(t, everything()...).open("admin")
	object := &result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}
	team := []live.Ref{{Kind: "ClusterObjectPolicy", Name: "team"}}
	got := ask[live.Opened](p, "live/open", live.Opening{Object: object, Policies: team, User: "jane"}, http.StatusOK)
	attempts, err := try.NewAttempter(policies.Limits{}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := got.State
	decided, err := attempts.Decide(t.Context(), &try.Attempt{Policies: s.Policies, Object: s.Object, Facts: s.Facts, User: usher.User{Name: s.User.Name}})
	if err != nil || len(decided.Problems) > 0 || decided.Judgement.Verdict() != "denied" || decided.Judgement.Message != "label team names no team" {
		t.Errorf("%v: %+v\n%s\n%s", err, decided, s.Facts, s.Policies)
	}
	if !strings.Contains(s.Facts, "name: teams") || !strings.Contains(s.Facts, "kind: Namespace") || strings.Contains(s.Facts, "managedFields") || !strings.Contains(s.Policies, "until-may") {
		t.Errorf("the state is\n%s\n---\n%s", s.Policies, s.Facts)
	}
	if len(got.Lacks) != 2 || !slices.Contains(got.Commands, live.Command{Title: "exempt it", Run: "usher exempt --from-cluster pod/web -n shop --if-denied --reason WHY --owner WHO > exemption.yaml"}) {
		t.Errorf("%q, %+v", got.Lacks, got.Commands)
	}
	// What was refused does not exist, and Secrets are not opened.
	for _, row := range []struct {
		object *result.Identity
		says   string
	}{
		{nil, "recordings"}, {&result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "gone"}, "recordings"},
		{&result.Identity{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"}, "object"}, {&result.Identity{APIVersion: "a/b/c", Kind: "X", Name: "x"}, "object"},
	} {
		got := ask[live.Opened](p, "live/open", live.Opening{Object: row.object, Policies: team}, http.StatusOK)
		if got.State.Object != "" || !slices.ContainsFunc(got.Missing, func(g live.Gap) bool { return g.What == row.says }) || got.State.Policies == "" {
			t.Errorf("%+v: %+v", row.object, got)
		}
		if of := "usher exempt --from-cluster -f REFUSED.yaml --reason WHY --owner WHO"; (got.Commands[0].Run == of) != (row.says == "recordings") {
			t.Errorf("%+v: %+v", row.object, got.Commands)
		}
	}
	if strings.Contains(p.seen.String(), "aGlkZGVu") {
		t.Error("the page gets the Secret")
	}
	// Names of objects are words of a shell.
	hostile := &result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "a'; rm -rf /;\x1b\n"}
	for _, c := range ask[live.Opened](p, "live/open", live.Opening{Object: hostile}, http.StatusOK).Commands {
		if strings.ContainsAny(c.Run, "\n\x1b") || strings.Contains(c.Run, "rm -rf") && !strings.Contains(c.Run, `'pod/a'\''; rm -rf /;`) {
			t.Errorf("a line to copy is %q", c.Run)
		}
	}
}

// TestOpensWhatDecides: admission policies of Kubernetes come with their bindings, and candidates as the policies in them.
func TestOpensWhatDecides(t *testing.T) {
	t.Parallel()
	const (
		vap     = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: bound}, spec: {matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}}}`
		binding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: its-binding}, spec: {policyName: bound}}`
		another = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: of-another}, spec: {policyName: another}}`
	)
	candidate := `{apiVersion: usher.dev/v1alpha1, kind: PolicyCandidate, metadata: {name: next, namespace: shop}, spec: {policies: [` + strings.Replace(asked, ", namespace: vault", "", 1) + `]}}`
	p := newRig(t, vap, binding, another, candidate).open("admin")
	got := ask[live.Opened](p, "live/open", live.Opening{Policy: &live.Ref{Kind: "ValidatingAdmissionPolicy", Name: "bound"}}, http.StatusOK).State.Policies
	if !strings.Contains(got, "its-binding") || strings.Contains(got, "of-another") {
		t.Errorf("opened\n%s", got)
	}
	got = ask[live.Opened](p, "live/open", live.Opening{Policies: []live.Ref{{Kind: "PolicyCandidate", Namespace: "shop", Name: "next"}}}, http.StatusOK).State.Policies
	if !strings.Contains(got, "name: asked-policy\n  namespace: shop") || strings.Contains(got, "PolicyCandidate") {
		t.Errorf("opened\n%s", got)
	}
	listed := ask[live.Listing](p, "live/policies", live.Scope{}, http.StatusOK)
	if len(listed.Policies) != 1 || !listed.Policies[0].Foreign || listed.Policies[0].Kinds != "deployments.apps" {
		t.Errorf("policies %+v", listed.Policies)
	}
	if want := []live.Ref{{Kind: "ObjectPolicy", Namespace: "shop", Name: "asked-policy"}}; len(listed.Candidates) != 1 || cmp.Diff(want, listed.Candidates[0].Policies) != "" {
		t.Errorf("candidates %+v", listed.Candidates)
	}
}

// TestFlagsOfACluster: what is for a cluster needs one, and a kubeconfig that does not exist is an error.
func TestFlagsOfACluster(t *testing.T) {
	t.Parallel()
	var f live.Flags
	f.Replicas.TokenFile = "x"
	if err := f.Complete(); err == nil {
		t.Error("--token-file needs no cluster")
	}
	f.Replicas.Kubeconfig = "/nonexistent"
	if _, err := f.Routes(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a kubeconfig that does not exist: %v", err)
	}
	f.Namespace = "SHOP"
	if err := f.Complete(); err == nil {
		t.Error("-n SHOP is a namespace")
	}
}
