package promote_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	commands "github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/promote"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(encoded)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return u
}

// A cluster records what is sent to it, and answers dry runs without storing anything.
type cluster struct {
	*fake.FakeDynamicClient

	sent    []string
	written []*unstructured.Unstructured
}

func newCluster(t *testing.T, refused string, objects ...runtime.Object) *cluster {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{{Group: "usher.dev", Version: "v1alpha1", Resource: "policycandidates"}: "PolicyCandidateList"}
	c := &cluster{FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)}
	c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var dryRun []string
		var object runtime.Object
		name := ""
		switch a := action.(type) {
		case clienttesting.CreateActionImpl:
			dryRun, object = a.CreateOptions.DryRun, a.Object
		case clienttesting.UpdateActionImpl:
			dryRun, object = a.UpdateOptions.DryRun, a.Object
		case clienttesting.DeleteActionImpl:
			dryRun, name = a.DeleteOptions.DryRun, a.Name
			if p := a.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
				t.Errorf("another version could be deleted: %v", a)
			}
		default:
			return false, nil, nil
		}
		if u, ok := object.(*unstructured.Unstructured); ok {
			name = u.GetName()
			if action.GetVerb() == "update" && (u.GetUID() == "" || u.GetResourceVersion() == "") {
				t.Errorf("another version could be replaced: %v", u)
			}
			if dryRun == nil {
				c.written = append(c.written, u)
			}
		}
		call := action.GetVerb() + " " + name
		if dryRun != nil {
			call = "try to " + call
		}
		c.sent = append(c.sent, call)
		if refused == call {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("refused"))
		}
		return dryRun != nil, object, nil
	})
	return c
}

func policy(kind, name, more string) string {
	spec := objectSpec
	if strings.HasSuffix(kind, "AuthorizationPolicy") {
		spec = `{effect: Allow, subjects: [{groups: [devs]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}`
	}
	return policyOf(kind, name, more, spec)
}

func policyOf(kind, name, more, spec string) string {
	return fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {name: %s%s}, spec: %s}`, kind, name, more, spec)
}

const objectSpec = `{failurePolicy: Fail, matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.name != 'x'"}]}`

const (
	evaluated = `conditions: [{type: Evaluated, status: "True", observedGeneration: 2, reason: Evaluated, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}], observedGeneration: 2, since: "2026-01-01T00:00:00Z"`
	seen      = evaluated + `, countedAt: "2026-01-02T00:00:00Z", seen: 5, newlyDenied: 3`
	tags      = `, compared: [{kind: ClusterObjectPolicy, name: tags, uid: one, generation: 3}]`
)

func candidate(t *testing.T, spec, status string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyCandidate, metadata: {name: c, uid: cand, generation: 2, resourceVersion: "9"}, spec: {%s}, status: {%s}}`, spec, status))
}

func stored(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: tags, uid: one, generation: 3, resourceVersion: "7", labels: {team: web}, annotations: {usher.dev/suspend: "true", usher.dev/proof: x}}
spec: `+strings.Replace(objectSpec, "{failurePolicy: Fail", "{failurePolicy: Ignore, severity: low", 1)+`
status: {observedGeneration: 3}
`)
}

type row struct {
	reason       string
	spec, status string
	// exists says that the policy tags is stored.
	exists bool
	o      promote.Options
	// refused is the call that the API server refuses.
	refused   string
	out, says string
	sent      []string
	negative  bool
}

var forced = promote.Options{Apply: true, Force: true, Warnings: rest.NoWarnings{}}

var apply = promote.Options{Apply: true, Warnings: rest.NoWarnings{}}

const counts = `ClusterPolicyCandidate c: counted since 2026-01-01T00:00:00Z (as of 2026-01-02T00:00:00Z: changes are written at most once a minute)
       5 decisions seen
       0 decisions skipped
       3 newly denied
       0 newly allowed
       0 answered with other warnings
       0 changed otherwise
       0 errors
         show the denied ones, and how to exempt them: usher watch --candidates --denied --explain --once --policy ClusterPolicyCandidate/c
`

func rows() []row {
	one := "policies: [" + policy("ClusterObjectPolicy", "tags", "") + "]"
	two := "policies: [" + policy("ClusterObjectPolicy", "tags", "") + ", " + policy("ClusterObjectPolicy", "more", "") + "]"
	removal := "remove: true, replaces: {kind: ClusterObjectPolicy, name: tags}"
	tried := []string{"try to create tags"}
	begun := strings.Replace(evaluated, `since: "2026-01-01T00:00:00Z"`, "since: "+strconv.Quote(time.Now().UTC().Format(time.RFC3339)), 1)
	isNew := "ClusterObjectPolicy tags is new\n  apiVersion: usher.dev/v1alpha1\n  kind: ClusterObjectPolicy\n  spec:\n    failurePolicy: Fail\n    matchConstraints:\n"
	return []row{
		{"nothing is written without --apply", one, seen, false, promote.Options{Warnings: rest.NoWarnings{}}, "", counts + isNew, "", tried, false},
		{"a new policy", one, seen, false, apply, "", "applied ClusterObjectPolicy tags\ndeleted ClusterPolicyCandidate c\n", "", []string{"try to create tags", "create tags", "delete c"}, false},
		{"a changed policy", one, seen + tags, true, apply, "", "-  failurePolicy: Ignore\n  +  failurePolicy: Fail\n", "", []string{"try to update tags", "update tags", "delete c"}, false},
		{"a removal", removal, seen + tags, true, apply, "", "ClusterObjectPolicy tags is deleted\ndeleted ClusterObjectPolicy tags\ndeleted ClusterPolicyCandidate c\n", "", []string{"try to delete tags", "delete tags", "delete c"}, false},
		{"a removal, shown", removal, seen + tags, true, promote.Options{Warnings: rest.NoWarnings{}}, "", "ClusterObjectPolicy tags is deleted\nnothing is written", "", []string{"try to delete tags"}, false},
		{"a removal of what is gone", removal, seen + tags, false, apply, "", "", "there is no ClusterObjectPolicy tags to remove: delete the candidate with 'kubectl delete clusterpolicycandidates c'", nil, true},
		{"an older server has counted", one, evaluated + ", seen: 5", false, promote.Options{Warnings: rest.NoWarnings{}}, "", "counted since 2026-01-01T00:00:00Z\n       5 decisions seen", "", tried, false},
		{"it is counted again", one, seen + ", restarted: ClusterPolicyExemption x came into force", false, promote.Options{Warnings: rest.NoWarnings{}}, "", "once a minute)\n         counting began again then: ClusterPolicyExemption x came into force\n       5 decisions seen", "", tried, false},
		{"of a named cluster", one, seen, false, promote.Options{Warnings: rest.NoWarnings{}, Flags: " --context prod"}, "", "--policy ClusterPolicyCandidate/c --context prod\n", "", tried, false},
		{"what is gone in a named cluster", removal, seen + tags, false, promote.Options{Warnings: rest.NoWarnings{}, Flags: " --context prod"}, "", "", "kubectl delete clusterpolicycandidates c --context prod'", nil, true},
		{"silence", one, evaluated, false, promote.Options{Warnings: rest.NoWarnings{}}, "", "it has seen no request, which proves nothing", "", tried, false},
		{"not evaluated", one, strings.ReplaceAll(seen, `status: "True"`, `status: "False"`), false, apply, "", "", "warning: it is not evaluated: ", tried, true},
		{"the status is of another version", one, strings.ReplaceAll(seen, "observedGeneration: 2, reason", "observedGeneration: 1, reason"), false, apply, "", "", "it is not evaluated yet, or not as it is now", tried, true},
		{"no status", one, "", false, apply, "", "nothing is counted yet", "it is not evaluated yet", tried, true},
		{"forced", one, "", false, forced, "", "applied ClusterObjectPolicy tags\ndeleted", "warning: it is not evaluated yet", []string{"try to create tags", "create tags", "delete c"}, false},
		{"errors", one, seen + ", errors: 2", false, apply, "", "", "warning: 2 of its evaluations have failed\nusher: ClusterPolicyCandidate c is not promoted", tried, true},
		{"problems", one, seen + ", problems: [{severity: error, what: a mistake}, {severity: warning, what: harmless}]", false, apply, "", "", "warning: a mistake\nusher: ", tried, true},
		{"not proven", one, strings.Replace(seen, "conditions: [", `conditions: [{type: Proven, status: "False", reason: Unknown, message: nobody, lastTransitionTime: "2026-01-01T00:00:00Z"}, `, 1), false, apply, "", "", "you would answer for what it embeds: nobody", tried, true},
		{"no numbers are written yet", one, begun, false, apply, "", "", "Usher writes what it has counted at most once a minute; try again after 2", tried, true},
		{"no numbers are written yet, but it is forced", one, begun, false, forced, "", "deleted ClusterPolicyCandidate c\n", "there are no numbers yet", []string{"try to create tags", "create tags", "delete c"}, false},
		{"the first numbers are written", one, begun + ", seen: 1", false, promote.Options{Warnings: rest.NoWarnings{}}, "", "1 decisions seen", "", tried, false},
		{"the policy has changed", one, seen + strings.Replace(tags, "generation: 3", "generation: 2", 1), true, apply, "", "", "ClusterObjectPolicy tags has changed since", []string{"try to update tags"}, true},
		{"the policy was created again", one, seen + strings.Replace(tags, "uid: one", "uid: two", 1), true, apply, "", "", "ClusterObjectPolicy tags has changed since", []string{"try to update tags"}, true},
		{"the policy was created since", one, seen, true, apply, "", "", "ClusterObjectPolicy tags exists, and is not among the policies", []string{"try to update tags"}, true},
		{"the policy was deleted since", one, seen + tags, false, apply, "", "", "ClusterObjectPolicy tags was deleted since", tried, true},
		{"an exemption was deleted since", one, seen + ", compared: [{kind: ClusterPolicyExemption, name: e, uid: x, generation: 1}]", false, apply, "", "", "ClusterPolicyExemption e was deleted since", tried, true},
		{"a policy of a file", one, seen + ", compared: [{kind: ClusterObjectPolicy, name: tags}]", false, apply, "", "", "comes from a file, which stays in force", tried, true},
		{"one of two is refused", two, seen, false, forced, "try to create more", "", "usher: ClusterObjectPolicy more is refused: ", []string{"try to create tags", "try to create more"}, true},
		{"one of two fails", two, seen, false, apply, "create more", "applied ClusterObjectPolicy tags\n", "ClusterObjectPolicy more is not written, nor what follows it, and the candidate is kept: ", []string{"try to create tags", "try to create more", "create tags", "create more"}, true},
		{"the candidate stays", one, seen, false, apply, "delete c", "applied ClusterObjectPolicy tags\n", "is still there (delete it with 'kubectl delete clusterpolicycandidates c')", []string{"try to create tags", "create tags", "delete c"}, true},
		{"another kind", "policies: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: root}}]", seen, false, forced, "", "", "is not a kind of policies that Usher enforces", nil, true},
		{"an authorization policy", "policies: [" + policy("ClusterAuthorizationPolicy", "a", "") + "]", seen, false, apply, "", "applied ClusterAuthorizationPolicy a\ndeleted", "", []string{"try to create a", "create a", "delete c"}, false},
		{"a candidate", "policies: [" + policy("ClusterPolicyCandidate", "a", "") + "]", seen, false, forced, "", "", "a candidate embeds no candidates", nil, true},
		{"twice the same", "policies: [" + policy("ClusterObjectPolicy", "a", "") + ", " + policy("ClusterObjectPolicy", "a", "") + "]", seen, false, apply, "", "", "is there twice", nil, true},
		{"no name", "policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy}]", seen, false, apply, "", "", "the policy has no name", nil, true},
		{"no namespace", "policies: [" + policy("ObjectPolicy", "a", "") + "]", seen, false, apply, "", "", "has no namespace", nil, true},
		{"not a policy", "policies: [7]", seen, false, apply, "", "", "spec.policies[0]: decode policy", nil, true},
		{"nothing", "", seen, false, apply, "", "", "it embeds no policies", nil, true},
	}
}

// TestPromoteAsAdmission has no webhook that could warn or refuse.
func TestPromoteAsAdmission(t *testing.T) {
	t.Parallel()
	everyPod := strings.Replace(objectSpec, "object.metadata.name != 'x'", "false", 1)
	deny := `{effect: Deny, subjects: [{users: ["*"]}], rules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]}`
	tried, applied := []string{"try to create p"}, []string{"try to create p", "create p", "delete c"}
	lockout := "Warning: p: spec.validations[0]: the rule refuses "
	for _, r := range []struct {
		reason, kind, spec string
		o                  promote.Options
		says               string
		sent               []string
	}{
		{"a harmless one", "ClusterObjectPolicy", objectSpec, apply, "", applied},
		{"one that refuses all Pods is warned of", "ClusterObjectPolicy", everyPod, apply, lockout, applied},
		{"and also without --apply", "ClusterObjectPolicy", everyPod, promote.Options{Warnings: rest.NoWarnings{}}, lockout, tried},
		{"one that keeps administrators out is not promoted", "ClusterAuthorizationPolicy", deny, apply, "warning: ClusterAuthorizationPolicy p: it would deny ", tried},
		{"unless forced", "ClusterAuthorizationPolicy", deny, forced, "warning: ClusterAuthorizationPolicy p: it would deny ", applied},
		{"one that does not compile", "ClusterObjectPolicy", strings.Replace(objectSpec, "object.metadata", "objekt.metadata", 1), apply, "warning: ClusterObjectPolicy p: spec.validations[0].expression: ", tried},
	} {
		c := newCluster(t, "", candidate(t, "policies: ["+policyOf(r.kind, "p", "", r.spec)+"]", seen))
		var says bytes.Buffer
		r.o.Warnings = commands.Warnings(&says)
		err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &says}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, r.o)
		if (err != nil) != (r.o.Apply && len(r.sent) == 1) || !strings.Contains(says.String(), r.says) || r.says == "" && says.Len() > 0 {
			t.Errorf("%s: got %v, printed %s", r.reason, err, says.String())
		}
		if diff := cmp.Diff(r.sent, c.sent); diff != "" {
			t.Errorf("%s: sent -want +got:\n%s", r.reason, diff)
		}
	}
}

func TestPromote(t *testing.T) {
	t.Parallel()
	for _, r := range rows() {
		t.Run(r.reason, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{candidate(t, r.spec, r.status)}
			if r.exists {
				objects = append(objects, stored(t))
			}
			c := newCluster(t, r.refused, objects...)
			var out, says bytes.Buffer
			err := promote.Promote(t.Context(), cli.Streams{Out: &out, Err: &says}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, r.o)
			if errors.Is(err, cli.ErrNegative) != r.negative || err != nil && !r.negative {
				t.Errorf("got error %v", err)
			}
			if !strings.Contains(out.String(), r.out) || !strings.Contains(says.String(), r.says) || r.says == "" && says.Len() > 0 {
				t.Errorf("printed\n%s\nand\n%s", out.String(), says.String())
			}
			if diff := cmp.Diff(r.sent, c.sent); diff != "" {
				t.Errorf("sent -want +got:\n%s", diff)
			}
		})
	}
}

// TestPromotesWhatWasEvaluated: nothing of the spec in force stays that the candidate does not have, and
// the labels of others do.
func TestPromotesWhatWasEvaluated(t *testing.T) {
	t.Parallel()
	embedded := policy("ClusterObjectPolicy", "tags", ", uid: other, resourceVersion: '1', labels: {tier: web}, annotations: {usher.dev/proof: forged, a: b}")
	c := newCluster(t, "", candidate(t, "policies: ["+embedded+"]", seen+tags), stored(t))
	err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, apply)
	if err != nil || len(c.written) != 1 {
		t.Fatal(err, c.written)
	}
	want := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: tags, uid: one, resourceVersion: "7", labels: {team: web, tier: web}, annotations: {usher.dev/proof: x, a: b}}
spec: `+objectSpec+`
`)
	if diff := cmp.Diff(want, c.written[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPromoteInNamespace: a candidate of a namespace never has others write anything outside of it.
func TestPromoteInNamespace(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ reason, spec, says string }{
		{"its own namespace", "policies: [" + policy("ObjectPolicy", "p", "") + "]", ""},
		{"another namespace", "policies: [" + policy("ObjectPolicy", "p", ", namespace: kube-system") + "]", "a PolicyCandidate is for policies of its own namespace"},
		{"the cluster", "policies: [" + policy("ClusterObjectPolicy", "p", "") + "]", "a PolicyCandidate is for policies of its own namespace"},
		{"a removal elsewhere", "remove: true, replaces: {kind: ObjectPolicy, name: p, namespace: kube-system}", "a PolicyCandidate replaces policies of its own namespace"},
		{"a removal in the cluster", "remove: true, replaces: {kind: ClusterObjectPolicy, name: p}", "a PolicyCandidate replaces policies of its own namespace"},
		{"a removal of something else", "remove: true, replaces: {kind: Namespace, name: p}", "is not a kind of policy"},
	} {
		c := newCluster(t, "", parse(t, fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: PolicyCandidate, metadata: {name: c, namespace: shop, uid: cand, generation: 2, resourceVersion: "9"}, spec: {%s}, status: {%s}}`, r.spec, seen)))
		var says bytes.Buffer
		err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &says}, c, usher.PolicyRef{Kind: "PolicyCandidate", Namespace: "shop", Name: "c"}, forced)
		if (err != nil) != (r.says != "") || !strings.Contains(says.String(), r.says) || (len(c.sent) > 0) != (r.says == "") {
			t.Errorf("%s: got %v, sent %q, printed %s", r.reason, err, c.sent, says.String())
		}
		for _, w := range c.written {
			if w.GetNamespace() != "shop" {
				t.Errorf("%s: written in %s", r.reason, w.GetNamespace())
			}
		}
	}
}

// TestPromotesWhatWasShown: with what a run without --apply has printed, nothing else is written, also if the candidate
// was changed and evaluated again in between, or was deleted and created again.
func TestPromotesWhatWasShown(t *testing.T) {
	t.Parallel()
	embedding := func(spec string) string {
		return "policies: [" + policyOf("ClusterObjectPolicy", "tags", "", spec) + "]"
	}
	shown, evil := embedding(objectSpec), embedding(strings.Replace(objectSpec, "'x'", "'y'", 1))
	removal := "remove: true, replaces: {kind: ClusterObjectPolicy, name: tags}"
	again := stored(t)
	again.SetUID("two")
	for _, r := range []struct {
		reason, first, then string
		was, is             *unstructured.Unstructured
		refused             bool
	}{
		{"the same", shown, shown, stored(t), stored(t), false},
		{"a new policy", shown, shown, nil, nil, false},
		{"another spec", shown, evil, stored(t), stored(t), true},
		{"another spec of a new policy", shown, evil, nil, nil, true},
		{"a removal", shown, removal, stored(t), stored(t), true},
		{"one more", shown, strings.TrimSuffix(shown, "]") + ", " + policy("ClusterObjectPolicy", "more", "") + "]", nil, nil, true},
		{"the removal of another policy of the name", removal, removal, stored(t), again, true},
	} {
		promoted := func(spec string, inForce *unstructured.Unstructured, o promote.Options) (*cluster, string, error) {
			status, objects := seen, []runtime.Object{}
			if inForce != nil {
				status += strings.Replace(tags, "one", string(inForce.GetUID()), 1)
				objects = append(objects, inForce)
			}
			c := newCluster(t, "", append(objects, candidate(t, spec, status))...)
			var out bytes.Buffer
			err := promote.Promote(t.Context(), cli.Streams{Out: &out, Err: &out}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, o)
			return c, out.String(), err
		}
		_, out, err := promoted(r.first, r.was, promote.Options{Warnings: rest.NoWarnings{}})
		_, word, ok := strings.Cut(strings.TrimSpace(out), "--shown ")
		if err != nil || !ok {
			t.Fatalf("%s: %v:\n%s", r.reason, err, out)
		}
		o := forced
		o.Shown = word
		c, out, err := promoted(r.then, r.is, o)
		if wrote := slices.ContainsFunc(c.sent, func(call string) bool { return !strings.HasPrefix(call, "try ") }); wrote == r.refused || (err != nil) != r.refused {
			t.Errorf("%s: %v, sent %q:\n%s", r.reason, err, c.sent, out)
		}
	}
}

// TestPromoteRaces: what others write between the dry run and the write is not replaced; the status is
// nobody's change.
func TestPromoteRaces(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ reason, says string }{
		{"its status", ""},
		{"its spec", "somebody else has written it just now"},
	} {
		c := newCluster(t, "", candidate(t, "policies: ["+policy("ClusterObjectPolicy", "tags", "")+"]", seen+tags), stored(t))
		conflicts := 0
		c.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			a, ok := action.(clienttesting.UpdateActionImpl)
			if !ok || a.UpdateOptions.DryRun != nil || conflicts > 0 {
				return false, nil, nil
			}
			conflicts++
			changed := stored(t)
			changed.SetResourceVersion("8")
			if r.says != "" {
				changed.SetGeneration(4)
			}
			if err := c.Tracker().Update(a.GetResource(), changed, ""); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{}, "tags", errors.New("changed"))
		})
		var says bytes.Buffer
		err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &says}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, apply)
		if (err != nil) != (r.says != "") || !strings.Contains(says.String(), r.says) {
			t.Errorf("%s: got %v: %s", r.reason, err, says.String())
		}
		if deleted := slices.Contains(c.sent, "delete c"); deleted != (r.says == "") {
			t.Errorf("%s: sent %q", r.reason, c.sent)
		}
	}
}

// TestPromoteNothing: without a candidate the cluster cannot be used for this.
func TestPromoteNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "")
	err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, apply)
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	resource := schema.GroupResource{Group: "usher.dev", Resource: "clusterpolicycandidates"}
	c.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "get", resource, "c", "404 page not found", 0, true)
	})
	err = promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, c, usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, apply)
	if err == nil || !strings.Contains(err.Error(), "does not know the kind ClusterPolicyCandidate") {
		t.Errorf("got %v", err)
	}
}

// TestPromoteAnotherOfTheName: who names a candidate in the wrong place is told where there is one, unless they may
// not read it.
func TestPromoteAnotherOfTheName(t *testing.T) {
	t.Parallel()
	in := func(namespace, name string) *unstructured.Unstructured {
		return parse(t, fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: PolicyCandidate, metadata: {name: %s, namespace: %s}}`, name, namespace))
	}
	cluster, shop := usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, usher.PolicyRef{Kind: "PolicyCandidate", Namespace: "shop", Name: "c"}
	const also = "; there is another candidate of this name: "
	for _, test := range []struct {
		reason    string
		ref       usher.PolicyRef
		objects   []runtime.Object
		forbidden []string
		hint      string
	}{
		{"in the namespace of the kubeconfig", cluster, []runtime.Object{in("shop", "c"), in("shop", "d")}, []string{"list"}, also + "'usher promote c -n shop --apply'"},
		{"who may not read those of the cluster", cluster, []runtime.Object{in("shop", "c")}, []string{"list", "get clusterpolicycandidates"}, also + "'usher promote c -n shop --apply'"},
		{"in others", cluster, []runtime.Object{in("web", "c"), in("shop", "d")}, nil, also + "'usher promote c -n web --apply'"},
		{"in many", cluster, []runtime.Object{in("a", "c"), in("b", "c"), in("d", "c"), in("e", "c"), in("shop", "c")}, nil,
			also + "'usher promote c -n shop --apply' or 'usher promote c -n a --apply' or 'usher promote c -n b --apply' or 2 more"},
		{"one of the cluster", shop, []runtime.Object{candidate(t, "", "")}, nil, also + "'usher promote c --apply'"},
		{"nowhere", shop, []runtime.Object{in("shop", "d")}, nil, ""},
		{"nothing may be read", cluster, []runtime.Object{in("shop", "c")}, []string{"list", "get"}, ""},
	} {
		c := newCluster(t, "", test.objects...)
		c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			resource := action.GetResource().GroupResource()
			forbidden := slices.Contains(test.forbidden, action.GetVerb()) || slices.Contains(test.forbidden, action.GetVerb()+" "+resource.Resource)
			return forbidden, nil, apierrors.NewForbidden(resource, "c", errors.New("no right"))
		})
		err := promote.Promote(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, c, test.ref, promote.Options{Apply: true, Home: "shop"})
		if err == nil {
			t.Fatalf("%s: no error", test.reason)
		}
		if _, hint, found := strings.Cut(err.Error(), "; "); found != (test.hint != "") || found && "; "+hint != test.hint {
			t.Errorf("%s: got %v, want %q", test.reason, err, test.hint)
		}
	}
}
