package live_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/live"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/observe/recording"
)

// TestOpenRecorded: a request that was refused is opened as it came, by users who may read recordings of its namespace.
func TestOpenRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything()...)
	refused := func(uid, namespace, kind, object string) {
		r.recordings.Add(&usher.Request{
			UID: uid, Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: namespace, Trusted: true,
			User: usher.User{Name: "jane", Groups: []string{"dev"}}, Object: usher.RawObject([]byte(object)),
		})
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","namespace":"NAMESPACE","managedFields":[{}]},"status":{"phase":"\u001b[2J"}}`
	refused("one", "shop", "Pod", strings.ReplaceAll(pod, "NAMESPACE", "shop"))
	refused("two", "bank", "Pod", strings.ReplaceAll(pod, "NAMESPACE", "bank"))
	refused("three", "shop", "Secret", `{"apiVersion":"v1","kind":"Secret","data":{"key":"aHVudGVyMg=="}}`)
	team := []live.Ref{{Kind: "ClusterObjectPolicy", Name: "team"}}
	admin, ann := r.open("admin"), r.open("ann")
	opening := func(uid, namespace string) live.Opening {
		return live.Opening{Policies: team, User: "jane", Operation: "CREATE", Request: &live.RequestRef{UID: uid, Namespace: namespace, Replica: "none"}}
	}
	for _, p := range []*page{admin, ann} {
		got := ask[live.Opened](p, "live/open", opening("one", "shop"), http.StatusOK)
		if s := got.State; !strings.Contains(s.Object, "generateName: web-") || strings.Contains(s.Object, "managedFields") || strings.Contains(s.Object, "\x1b") || s.User.Name != "jane" || !slices.Equal(s.User.Groups, []string{"dev"}) || s.Namespace != "shop" {
			t.Errorf("%+v, %+v", s, got.Missing)
		}
		if slices.ContainsFunc(got.Lacks, func(text string) bool { return strings.Contains(text, "groups") }) {
			t.Errorf("it lacks %q", got.Lacks)
		}
	}
	for _, row := range []struct {
		p              *page
		uid, namespace string
		reason         string
	}{
		{ann, "two", "bank", "another namespace"}, {ann, "two", "shop", "the UID of another namespace"}, {ann, "two", "", "all namespaces"}, {ann, "../one", "shop", "a path"},
		{admin, "none", "shop", "no recording"}, {admin, "three", "shop", "a Secret"},
	} {
		got := ask[live.Opened](row.p, "live/open", opening(row.uid, row.namespace), http.StatusOK)
		if got.State.Object != "" || !slices.ContainsFunc(got.Missing, func(g live.Gap) bool { return g.What == "recordings" }) {
			t.Errorf("%s: %+v", row.reason, got)
		}
	}
	if all := admin.seen.String() + ann.seen.String(); strings.Contains(all, "aHVudGVyMg") || strings.Contains(ann.seen.String(), "namespace: bank") {
		t.Error("a page gets what nobody may see")
	}
	// Without a recording the object as it is now is opened.
	in := opening("none", "shop")
	in.Object = &result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}
	if got := ask[live.Opened](admin, "live/open", in, http.StatusOK); got.State.Object == "" || len(got.Lacks) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestOpenRecordedInPart: a recording without the object that is decided is none, whatever else it has; the object is then
// as it is now. Without the old object it is one.
func TestOpenRecordedInPart(t *testing.T) {
	t.Parallel()
	r := newRig(t, everything()...)
	small := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"sent":"small"}}}`
	large := strings.Replace(small, "small", strings.Repeat("x", recording.LargestObject), 1)
	p := r.open("admin")
	for i, row := range []struct {
		operation   usher.Operation
		object, old string
		recorded    bool
	}{
		{usher.Update, large, small, false}, {usher.Update, small, large, true}, {usher.Update, small, small, true},
		{usher.Delete, "", small, true}, {usher.Delete, "", large, false}, {usher.Create, large, "", false},
	} {
		request := &usher.Request{
			UID: strconv.Itoa(i), Phase: usher.Validate, Operation: row.operation, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Name: "web", Trusted: true, User: usher.User{Name: "jane"},
		}
		if row.object != "" {
			request.Object = usher.RawObject([]byte(row.object))
		}
		if row.old != "" {
			request.OldObject = usher.RawObject([]byte(row.old))
		}
		r.recordings.Add(request)
		s := ask[live.Opened](p, "live/open", live.Opening{
			Object: &result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}, Operation: string(row.operation), Request: &live.RequestRef{UID: request.UID, Namespace: "shop"},
		}, http.StatusOK).State
		if recorded := strings.Contains(s.Object+s.OldObject, "sent: small"); recorded != row.recorded || (s.Object == "") != (row.operation == usher.Delete) {
			t.Errorf("%d, %s: the object is %q, and was %q", i, row.operation, s.Object, s.OldObject)
		}
	}
}

// TestOpenRecordedRequest: policies read of the cluster what they read for the request that was recorded, of which the object
// does not tell the name or the namespace.
func TestOpenRecordedRequest(t *testing.T) {
	t.Parallel()
	const execs = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: execs}
spec:
  matchConditions: [{name: tried, expression: "request.name == 'web' && request.dryRun"}]
  matchConstraints:
    namespaceSelector: {matchLabels: {env: prod}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]
  data: [{name: teams, object: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: teams}}]
  validations: [{expression: "'blue' in data.teams.data"}]
`
	r := newRig(t, append(everything(), execs)...)
	r.recordings.Add(&usher.Request{
		UID: "exec", Phase: usher.Validate, Operation: usher.Connect, Kind: schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Subresource: "exec",
		Namespace: "shop", Name: "web", DryRun: true, Trusted: true, User: usher.User{Name: "jane"}, Object: usher.RawObject([]byte(`{"apiVersion":"v1","kind":"PodExecOptions","command":["sh"]}`)),
	})
	got := ask[live.Opened](r.open("admin"), "live/open", live.Opening{
		Policies: []live.Ref{{Kind: "ClusterObjectPolicy", Name: "execs"}}, Operation: "CONNECT", Request: &live.RequestRef{UID: "exec", Namespace: "shop"},
	}, http.StatusOK)
	if s := got.State; s.Name != "web" || s.Namespace != "shop" || !s.DryRun || !strings.Contains(s.Facts, "kind: Namespace") || !strings.Contains(s.Facts, "name: teams") {
		t.Errorf("%+v, it lacks %q", s, got.Lacks)
	}
}
