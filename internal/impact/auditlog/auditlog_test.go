package auditlog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact/auditlog"
)

// event returns an event of a request that ended with a code.
func event(verb, uri string, code int, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"a","stage":"ResponseComplete","requestURI":%q,"verb":%q,`+
		`"user":{"username":"jane","groups":["dev"]},"responseStatus":{"code":%d}%s}`, uri, verb, code, more)
}

func pod(name, version string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop","resourceVersion":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`, name, version)
}

func deployment(replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","resourceVersion":"%d"},"spec":{"replicas":%d}}`, replicas, replicas)
}

const (
	pods        = "/api/v1/namespaces/shop/pods"
	deployments = "/apis/apps/v1/namespaces/shop/deployments"
	refused     = `{"kind":"Status","apiVersion":"v1","status":"Failure"}`
)

// read returns what a log says of each write, in one line each, and the questions.
func read(t *testing.T, lines ...string) (writes, questions []string, log *auditlog.Log) {
	t.Helper()
	log = auditlog.New()
	err := log.Read(t.Context(), strings.NewReader(strings.Join(lines, "\n")), "audit.log", func(e auditlog.Entry) error {
		q := e.Subject.Question.Request
		questions = append(questions, strings.TrimSpace(fmt.Sprint(q.User.Name, " ", q.Access.Verb, " ", q.Resource.Resource, " ", q.Subresource, " ", q.Access.Path)))
		s, r := e.Subject, e.Subject.Request
		if r == nil {
			return nil
		}
		line := fmt.Sprint(s.From, " ", r.Operation, " ", r.Kind.Kind, " ", r.Resource.Resource)
		if r.Subresource != "" {
			line += "/" + r.Subresource
		}
		line += " " + r.Namespace + "/" + r.Name
		for what, is := range map[string]bool{" denied": e.Denied, " admitted": s.Admitted} {
			if is {
				line += what
			}
		}
		for _, o := range []*usher.Object{r.Object, r.OldObject} {
			tree, err := o.Tree()
			if err != nil {
				t.Fatal(err)
			}
			metadata, _ := tree["metadata"].(map[string]any)
			line += fmt.Sprintf(" [%v %v]", metadata["name"], metadata["resourceVersion"])
		}
		for _, why := range []string{s.Unknown.Object, s.Unknown.OldObject, s.Unknown.Defaults} {
			if why != "" {
				line += " (" + why + ")"
			}
		}
		writes = append(writes, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return writes, questions, log
}

func TestWrites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		lines  []string
		want   []string
	}{
		{"what was admitted is known as it came out, without its version", []string{
			event("create", pods, 201, `,"requestObject":{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-"}},"responseObject":`+pod("web-1", "7")),
		}, []string{"audit.log:1 CREATE Pod pods shop/web-1 admitted [web-1 <nil>] [<nil> <nil>]"}},
		{"what was denied is known as it was sent", []string{
			strings.Replace(event("create", pods, 403, `,"requestObject":`+pod("web-1", "")+`,"responseObject":`+refused), `{"code":403}`, `{"code":403,"message":"admission webhook \"x\" denied the request: no"}`, 1),
		}, []string{"audit.log:1 CREATE Pod pods shop/web-1 denied [web-1 ] [<nil> <nil>] (the log has the object as it was sent, without the fields that API servers fill in)"}},
		{"the old object of an update is that of the write before", []string{
			event("create", deployments, 201, `,"responseObject":`+deployment(1)),
			event("update", deployments+"/web", 200, `,"requestObject":`+deployment(2)+`,"responseObject":`+deployment(2)),
			event("patch", deployments+"/web", 200, `,"requestObject":{"spec":{"replicas":3}},"responseObject":`+deployment(3)),
			event("delete", deployments+"/web", 200, ""),
			event("delete", deployments+"/web", 200, ""),
		}, []string{
			"audit.log:1 CREATE Deployment deployments shop/web admitted [web <nil>] [<nil> <nil>]",
			"audit.log:2 UPDATE Deployment deployments shop/web admitted [web <nil>] [web 1]",
			"audit.log:3 UPDATE Deployment deployments shop/web admitted [web <nil>] [web 2]",
			"audit.log:4 DELETE Deployment deployments shop/web [<nil> <nil>] [web 3]",
			"audit.log:5 DELETE  deployments shop/web [<nil> <nil>] [<nil> <nil>] (the log does not have the object that was deleted)",
		}},
		{"a dry run leaves no object", []string{
			event("create", deployments+"?dryRun=All", 201, `,"responseObject":`+deployment(1)),
			event("update", deployments+"/web", 200, `,"responseObject":`+deployment(2)),
		}, []string{
			"audit.log:1 CREATE Deployment deployments shop/web admitted [web <nil>] [<nil> <nil>]",
			"audit.log:2 UPDATE Deployment deployments shop/web admitted [web <nil>] [<nil> <nil>] (the log does not have the object as it was before)",
		}},
		{"server-side apply creates", []string{event("patch", deployments+"/web?fieldManager=x", 201, `,"responseObject":`+deployment(1))},
			[]string{"audit.log:1 CREATE Deployment deployments shop/web admitted [web <nil>] [<nil> <nil>]"}},
		{"the level Metadata has no objects", []string{event("create", pods, 201, `,"objectRef":{"name":"web-1"}`)},
			[]string{"audit.log:1 CREATE  pods shop/web-1 [<nil> <nil>] [<nil> <nil>] (the log does not have the object: set the level RequestResponse)"}},
		{"a patch alone is no object", []string{event("patch", deployments+"/web", 200, `,"requestObject":{"spec":{"replicas":3}}`)},
			[]string{"audit.log:1 UPDATE  deployments shop/web [<nil> <nil>] [<nil> <nil>] (the log does not have the object: set the level RequestResponse) (the log does not have the object as it was before)"}},
		{"a truncated event has no whole object", []string{event("create", pods, 201, `,"annotations":{"audit.k8s.io/truncated":"true"},"responseObject":`+pod("web-1", "7"))},
			[]string{"audit.log:1 CREATE  pods shop/web-1 [<nil> <nil>] [<nil> <nil>] (the log has the object only in part: raise --audit-log-truncate-max-event-size)"}},
		{"many deletions name nothing", []string{event("deletecollection", pods, 200, "")},
			[]string{"audit.log:1 DELETE  pods shop/ [<nil> <nil>] [<nil> <nil>] (the log does not name the objects that were deleted together)"}},
		{"an exec is a connection", []string{event("create", pods+"/web-1/exec?command=sh", 101, "")},
			[]string{"audit.log:1 CONNECT  pods/exec shop/web-1 [<nil> <nil>] [<nil> <nil>] (the log does not have the options of the connection)"}},
		{"a list of events", []string{`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + event("create", pods, 201, `,"responseObject":`+pod("a", "1")) + `,` + event("create", pods, 201, `,"responseObject":`+pod("b", "1")) + `]}`},
			[]string{"audit.log:1 CREATE Pod pods shop/a admitted [a <nil>] [<nil> <nil>]", "audit.log:1 CREATE Pod pods shop/b admitted [b <nil>] [<nil> <nil>]"}},
		{"no admission", []string{
			event("get", pods+"/a", 200, ""), event("create", pods, 409, ""), event("create", pods, 403, ""), event("create", pods, 422, ""),
			event("create", "/apis/authorization.k8s.io", 200, ""), event("get", "/healthz", 200, ""),
		}, nil},
	} {
		writes, _, _ := read(t, test.lines...)
		if diff := cmp.Diff(test.want, writes); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestQuestions: every complete request was a question to authorizers, of the user that was impersonated.
func TestQuestions(t *testing.T) {
	t.Parallel()
	_, questions, log := read(t,
		event("list", pods+"?labelSelector=a%3Db", 200, ""),
		event("get", "/healthz", 200, ""),
		event("create", pods+"/web/eviction", 403, ""),
		event("get", pods+"/a", 200, `,"impersonatedUser":{"username":"bob"}`),
		strings.Replace(event("get", pods+"/a", 200, ""), "ResponseComplete", "RequestReceived", 1),
		strings.Replace(event("get", pods+"/a", 200, ""), `"username":"jane"`, `"username":""`, 1),
		"torn", `{"kind":"Event","apiVersion":"v1"}`,
	)
	want := []string{"jane list pods", "jane get   /healthz", "jane create pods eviction", "bob get pods"}
	if diff := cmp.Diff(want, questions); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{auditlog.NotComplete: 1, auditlog.NotAuthentic: 1, auditlog.NotAnEvent: 2, auditlog.NotAdmitted: 4}, log.Skipped()); diff != "" {
		t.Errorf("skipped: -want +got:\n%s", diff)
	}
}

// TestOthers: the log says what other authorizers than Usher said. Texts of policies do not pass for it.
func TestOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, decision, text string
		want                   usher.Verdict
	}{
		{"nothing is said", "", "", usher.NoOpinion},
		{"RBAC allows", "allow", `RBAC: allowed by RoleBinding "dev/pay" of Role "dev" to Group "dev"`, usher.Allow},
		{"Usher allows", "allow", "allowed by policy AccessPolicy pay/p", usher.NoOpinion},
		{"and says that RBAC does", "allow", `RBAC: allowed by policy AccessPolicy pay/p`, usher.NoOpinion},
		{"one that is asked before webhooks", "allow", "", usher.Allow},
		{"none allows", "forbid", "", usher.Deny},
		{"Usher denies", "forbid", "denied by policy ClusterAccessPolicy p", usher.NoOpinion},
	} {
		annotations, err := json.Marshal(map[string]string{"authorization.k8s.io/decision": test.decision, "authorization.k8s.io/reason": test.text})
		if err != nil {
			t.Fatal(err)
		}
		var got usher.Verdict
		line := event("get", pods+"/a", 200, `,"annotations":`+string(annotations))
		if err := auditlog.New().Read(t.Context(), strings.NewReader(line), "audit.log", func(e auditlog.Entry) error {
			got = e.Subject.Question.Others
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("%s: got %q, expected %q", test.reason, got, test.want)
		}
	}
}

// TestHostileLogs: no log ends in a panic, takes much memory, or counts as read if nothing was.
func TestHostileLogs(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for range 100 {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("\n" + event("create", pods, 201, `,"responseObject":`+pod("a", "1")))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason, text string
		writes       int
		err          string
	}{
		{"nothing", "", 0, "has no audit events"},
		{"something else", "apiVersion: v1\nkind: Pod\n", 0, "has no audit events"},
		{"a long line of gigabytes, packed", packed.String(), 1, ""},
		{"a packed log that is torn", packed.String()[:packed.Len()/2], 0, "read audit.log"},
		{"objects that are no objects", event("create", pods, 201, `,"requestObject":[1],"responseObject":"x"`), 1, ""},
		{"a path that is none", event("create", "::", 201, ""), 0, ""},
		{"a list of millions", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{}` + strings.Repeat(",{}", 1_000_000) + "]}\n" + event("create", pods, 201, ""), 1, ""},
		{"a list that is none", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":{"a":1}}` + "\n" + event("create", pods, 201, ""), 1, ""},
		{"a list with something else in it", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + event("create", pods, 201, "") + `,7,{}]}`, 1, ""},
		{"an object that is nested deeply", event("create", pods, 201, `,"responseObject":`+strings.Repeat(`{"a":`, 1_000_000)+"1"+strings.Repeat("}", 1_000_000)) + "\n" + event("create", pods, 201, ""), 1, ""},
		{"a response that lies", event("create", pods, 201, `,"responseObject":{"apiVersion":"v1","kind":"Pod","metadata":7}`) + "\n" + event("patch", pods+"/a", 200, `,"responseObject":{"apiVersion":[],"kind":"Pod"}`), 2, ""},
		{"control characters", event("create", pods, 201, `,"responseObject":`+strings.Replace(pod("a", "1"), `"name":"a"`, `"name":"\u001b[31m"`, 1)), 1, ""},
	} {
		writes := 0
		err := auditlog.New().Read(t.Context(), strings.NewReader(test.text), "audit.log", func(e auditlog.Entry) error {
			if e.Subject.Request != nil {
				writes++
			}
			return nil
		})
		if got := fmt.Sprint(err); test.err == "" != (err == nil) || !strings.Contains(got, test.err) {
			t.Errorf("%s: error %v, expected %q", test.reason, err, test.err)
		}
		if writes != test.writes {
			t.Errorf("%s: %d writes, expected %d", test.reason, writes, test.writes)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := auditlog.New().Read(ctx, strings.NewReader(event("create", pods, 201, "")), "audit.log", func(auditlog.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a log that nobody waits for: %v", err)
	}
}
