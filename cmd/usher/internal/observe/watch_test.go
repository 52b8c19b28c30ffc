package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// A replica is a server whose streams say what a test writes to them.
type replica struct {
	t      *testing.T
	server *httptest.Server
	// streams are those that clients open.
	streams chan *stream
}

type stream struct {
	query, seen string
	write       chan string
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	r := &replica{t: t, streams: make(chan *stream, 8)}
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "User cannot watch", Code: http.StatusForbidden})
			return
		}
		s := &stream{query: request.URL.Query().Encode(), seen: request.Header.Get("Last-Event-ID"), write: make(chan string, 64)}
		r.streams <- s
		if request.URL.Query().Get("policy") == "tema" {
			w.Header().Set("Warning", `299 - "there is no policy tema: did you mean team?"`)
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text, ok := <-s.write:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-request.Context().Done():
				return
			}
		}
	}
	mux.HandleFunc("GET /usher/v1/decisions", serve)
	mux.HandleFunc("GET /usher/v1/candidatedecisions", serve)
	mux.HandleFunc("GET /usher/v1/namespaces/shop/decisions", serve)
	r.server = httptest.NewTLSServer(mux)
	t.Cleanup(func() { r.server.CloseClientConnections(); r.server.Close() })
	return r
}

// stream returns the next stream that a client opens.
func (r *replica) stream() *stream {
	r.t.Helper()
	select {
	case s := <-r.streams:
		return s
	case <-time.After(time.Minute):
		r.t.Fatal("no client comes")
		return nil
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// decision returns the event of a decision at a second after noon.
func decision(id string, second int, d *recent.Decision) string {
	d.Time = noon.Add(time.Duration(second) * time.Second)
	text, err := d.JSON()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("id: %s\nevent: decision\ndata: %s\n\n", id, text)
}

func named(name string) *recent.Decision {
	return &recent.Decision{Verdict: "allow", Request: recent.Request{Operation: "CREATE", Kind: "Pod", Name: name, User: "ann"}}
}

const current = "id: p-9\nevent: current\ndata: {}\n\n"

// An output is what a command prints, which tests wait for.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) wait(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(o.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not printed within a minute: %s\n%s", want, o)
		}
	}
}

// A watching is a command that runs.
type watching struct {
	t        *testing.T
	out, err output
	ended    chan error
	cancel   context.CancelFunc
}

// watch starts the command with some replicas.
func watch(t *testing.T, token string, replicas []*replica, args ...string) *watching {
	t.Helper()
	dir := t.TempDir()
	ca, secret := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	var bundle []byte
	for _, r := range replicas {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})...)
		args = append(args, "--server", r.server.URL)
	}
	for file, text := range map[string][]byte{ca: bundle, secret: []byte(token)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &watching{t: t, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	cmd := observe.Watch(cli.Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.err})
	cmd.SetArgs(append(args, "--ca-file", ca, "--token-file", secret))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	go func() { w.ended <- cmd.ExecuteContext(ctx) }()
	return w
}

// end interrupts the command, and returns the names in its lines.
func (w *watching) end() []string {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Errorf("interrupted it fails: %v", err)
	}
	return names(w.out.String())
}

func names(lines string) (all []string) {
	for line := range strings.Lines(lines) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, fields[4])
		}
	}
	return all
}

// TestWatchMerges: decisions of several replicas are in the order of time, the last ones of all at
// first.
func TestWatchMerges(t *testing.T) {
	t.Parallel()
	a, b := newReplica(t), newReplica(t)
	w := watch(t, "secret", []*replica{a, b}, "--last", "3")
	first, second := a.stream(), b.stream()
	for i, name := range []string{"a1", "a3", "a5"} {
		first.write <- decision(fmt.Sprint("p-", i), 2*i+1, named(name))
	}
	first.write <- current
	for i, name := range []string{"b2", "b4"} {
		second.write <- decision(fmt.Sprint("p-", i), 2*i+2, named(name))
	}
	second.write <- current
	w.out.wait(t, "a5")
	second.write <- decision("p-7", 9, named("b9"))
	first.write <- decision("p-7", 8, named("a8"))
	w.out.wait(t, "b9")
	if diff := cmp.Diff([]string{"a3", "b4", "a5", "a8", "b9"}, w.end()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := w.out.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "("+a.server.URL+")") {
		t.Errorf("lines have colours, or do not name the replica:\n%s", got)
	}
	if first.query != "last=3&watch=true" {
		t.Errorf("the query is %s", first.query)
	}
}

// TestWatchResumes: after a stream has ended nothing is missing and nothing is there twice, and what
// was lost is counted.
func TestWatchResumes(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	w := watch(t, "secret", []*replica{r}, "-n", "shop", "--denied", "--failed", "--kind", "Pod")
	s := r.stream()
	if s.query != "kind=Pod&last=100&outcome=denied&outcome=failed&watch=true" {
		t.Errorf("the query is %s", s.query)
	}
	s.write <- current + decision("p-1", 1, named("one"))
	w.out.wait(t, "one")
	close(s.write)
	s = r.stream()
	if s.seen != "p-1" {
		t.Errorf("it resumes from %q", s.seen)
	}
	s.write <- "id: p-5\nevent: lost\ndata: {\"lost\":4}\n\n" + decision("p-6", 6, named("six"))
	w.err.wait(t, "4 decisions are lost")
	w.err.wait(t, "connected again")
	s.write <- "event: end\ndata: {\"reason\":\"shutting down\"}\n\n"
	w.err.wait(t, "lost: shutting down")
	s = r.stream()
	// Another process, which has been asked for all that it has.
	if s.seen != "p-6" || !strings.Contains(s.query, "last=8192") {
		t.Errorf("it resumes from %q with %s", s.seen, s.query)
	}
	s.write <- decision("q-1", 6, named("six")) + decision("q-2", 7, named("seven"))
	w.err.wait(t, "restarted")
	w.out.wait(t, "seven")
	if diff := cmp.Diff([]string{"one", "six", "seven"}, w.end()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWatchDenied: a user without rights learns what to do.
func TestWatchDenied(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	for _, row := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"all namespaces", nil, "User cannot watch; name a namespace with -n"},
		{"a namespace", []string{"-n", "shop"}, "grant you watch on decisions.usher.dev in namespace shop"},
		{"without following", []string{"--once"}, "grant you list on decisions.usher.dev"},
		{"of candidates", []string{"--candidates", "--once"}, "grant you list on candidatedecisions.usher.dev"},
		{"not a namespace", []string{"-n", "Shop\x1b[31m"}, `-n Shop\x1b[31m: not the name of a namespace`},
		{"a time to come", []string{"--since=-5m"}, "expected a duration such as 15m"},
		{"too many", []string{"--last", "9999"}, "--last 9999: expected a number from 0 to 8192"},
	} {
		w := watch(t, "wrong", []*replica{r}, row.args...)
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.reason, err, row.want)
		}
	}
}

// TestWatchSaysWhatItFollows: a misspelled name is not silence.
func TestWatchSaysWhatItFollows(t *testing.T) {
	t.Parallel()
	a, b := newReplica(t), newReplica(t)
	w := watch(t, "secret", []*replica{a, b}, "-n", "shop", "--policy", "tema", "--user", "jane\x1b[31m", "--denied", "--failed")
	for _, r := range []*replica{a, b} {
		r.stream().write <- current
	}
	w.err.wait(t, "usher watch: following decisions at 2 replicas, in namespace shop, by policy tema, for user jane\\x1b[31m, denied or failed\n")
	w.err.wait(t, "warning: there is no policy tema: did you mean team?\n")
	w.end()
	if n := strings.Count(w.err.String(), "tema: did you mean"); n != 1 {
		t.Errorf("it warns %d times:\n%s", n, w.err.String())
	}
}

// TestWatchLines: what people see, also of names that are made to deceive them.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	team := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "require-team"}
	denied := &recent.Decision{
		Request: recent.Request{UID: "u-1", Phase: "validate", Operation: "CREATE", APIVersion: "apps/v1", Kind: "Deployment", Subresource: "scale", Namespace: "shop", Name: "web", User: "system:serviceaccount:ci:robot", DryRun: true},
		Verdict: "deny", Code: 422, TookSeconds: 0.0015, Omitted: 2, Rules: []recent.Rule{
			{Policy: team, Rule: "spec.validations", Outcome: usher.Rejected, Validations: []string{"spec.validations[0]", "spec.validations[2]"}},
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "b"}, Rule: "spec.validations", Outcome: usher.Exempted, Exemptions: []string{"PolicyExemption shop/x"}},
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "c"}, Rule: "spec.validations", Outcome: usher.Failed, Ignored: true, FailedAt: []string{"spec.validations"}},
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "d"}, Rule: "spec.validations", Outcome: usher.WouldDeny},
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "e"}, Rule: "spec.validations", Outcome: usher.Passed, Audited: true, Validations: []string{"spec.validations[1]", "spec.validations[2]"}, FailedAt: []string{"spec.validations[2]"}},
		},
	}
	evil := &recent.Decision{Request: recent.Request{Phase: "mutate", Operation: "UPDATE", Kind: "Pod", Namespace: "shop", Name: "a\x1b[2J\nb\u202e", User: "x'; rm -rf ~"}, Verdict: "allow", Changed: true, Warned: true}
	access := &recent.Decision{Request: recent.Request{Phase: "authorize", Operation: "list", Resource: "secrets", Namespace: "shop", User: "jane"}, Verdict: "deny"}
	path := &recent.Decision{Request: recent.Request{Phase: "authorize", Operation: "get", Path: "/metrics", User: "jane"}, Verdict: "error"}
	r := newReplica(t)
	w := watch(t, "secret", []*replica{r}, "--explain")
	s := r.stream()
	for i, d := range []*recent.Decision{denied, evil, access, path} {
		s.write <- decision(fmt.Sprint("p-", i), i, d)
	}
	s.write <- current
	w.out.wait(t, "--url")
	w.end()
	want := strings.ReplaceAll(`12:00:00.000 denied  CREATE Deployment/scale shop/web system:serviceaccount:ci:robot [audited, exempted, would be denied, dry run] ObjectPolicy shop/c (failed at spec.validations), ObjectPolicy shop/e (failed at spec.validations[2]), ClusterObjectPolicy require-team, 2 more
    ClusterObjectPolicy require-team spec.validations: rejected by spec.validations[0], spec.validations[2]
    ObjectPolicy shop/b spec.validations: exempted; exemption: PolicyExemption shop/x
    ObjectPolicy shop/c spec.validations: failed (ignored)
    ObjectPolicy shop/d spec.validations: wouldDeny
    ObjectPolicy shop/e spec.validations: audited by spec.validations[1]; failed at spec.validations[2]
    and 2 more rules
    code 422, took 1.5ms, uid u-1, replica URL
    with messages and values: usher explain --from-cluster OBJECT.yaml --operation CREATE -n shop --as system:serviceaccount:ci:robot
12:00:01.000 allowed UPDATE Pod shop/a\x1b[2J b\u202e x'; rm -rf ~ [mutating, changed, warned]
    took 0s, uid , replica URL
    with messages and values (the groups are in the log of the server): usher explain --from-cluster OBJECT.yaml --operation UPDATE -n shop --as 'x'\''; rm -rf ~' --as-group GROUP
12:00:02.000 denied  list secrets shop/* jane
    took 0s, uid , replica URL
    with messages and values (the groups are in the log of the server): usher authz can-i list secrets -n shop --as jane --as-group GROUP
12:00:03.000 error   get /metrics jane
    took 0s, uid , replica URL
    the error is in the log of this replica, with this uid; to see whether it fails again (the groups are in the log of the server): usher authz can-i --url GET:/metrics --as jane --as-group GROUP
`, "URL", r.server.URL)
	for i := range 4 {
		at := noon.Add(time.Duration(i) * time.Second)
		local := at.Local() //nolint:gosmopolitan // Lines are for the person at the terminal.
		want = strings.Replace(want, at.Format("15:04:05.000"), local.Format("15:04:05.000"), 1)
	}
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r = newReplica(t)
	w = watch(t, "secret", []*replica{r})
	r.stream().write <- decision("p-0", 0, denied) + current
	w.out.wait(t, "ClusterObjectPolicy require-team, 2 more: --explain names them\n")
	w.end()
	r = newReplica(t)
	w = watch(t, "secret", []*replica{r})
	r.stream().write <- decision("p-0", 0, &recent.Decision{
		Request: recent.Request{Phase: "validate", Operation: "CREATE", Kind: "ClusterObjectPolicy", Name: "require-team", User: "ann"},
		Verdict: "deny", Rules: []recent.Rule{{Policy: team, Written: true, Rule: "spec", Outcome: usher.Rejected}},
	}) + current
	w.out.wait(t, "denied  CREATE ClusterObjectPolicy require-team ann policy admission\n")
	w.end()
}

// TestWatchCandidates: how decisions of candidates differ, and the command that exempts an object.
func TestWatchCandidates(t *testing.T) {
	t.Parallel()
	of := func(namespace, name string, differences ...string) *recent.Decision {
		kind := "Cluster"
		if namespace != "" {
			kind = ""
		}
		return &recent.Decision{
			Request: recent.Request{Phase: "validate", Operation: "CREATE", APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name, User: "ann"}, Verdict: "deny",
			Candidate: &usher.PolicyRef{Kind: kind + "PolicyCandidate", Namespace: namespace, Name: "c"}, Differences: differences,
			Rules: []recent.Rule{{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "tags"}, Rule: "spec.validations", Outcome: usher.Rejected, Validations: []string{"spec.validations[0]"}}},
		}
	}
	access := &recent.Decision{
		Request: recent.Request{Phase: "authorize", Operation: "get", Resource: "secrets", Name: "x", Namespace: "shop", User: "jane"}, Verdict: "deny",
		Candidate: &usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, Differences: []string{"noOpinion"},
	}
	r := newReplica(t)
	w := watch(t, "secret", []*replica{r}, "--candidates", "--explain", "--denied")
	s := r.stream()
	for i, d := range []*recent.Decision{of("", "web; rm -rf ~", "denied"), of("shop", "web", "failing", "denied"), of("", "", "allowed"), access} {
		s.write <- decision(fmt.Sprint("p-", i), i, d)
	}
	s.write <- current
	w.out.wait(t, "no op.+")
	w.end()
	var got []string
	for line := range strings.Lines(w.out.String()) {
		if _, rest, ok := strings.Cut(line, "12:00:"); ok {
			line = rest[len("00.000 "):]
		}
		got = append(got, strings.TrimSpace(line))
	}
	const command = `-o json | usher exempt --from-cluster `
	want := []string{
		"denied+ CREATE Deployment shop/web; rm -rf ~ ann ClusterPolicyCandidate c, ClusterObjectPolicy tags",
		"ClusterObjectPolicy tags spec.validations: rejected by spec.validations[0]",
		"exempt it: kubectl get clusterpolicycandidate c " + command + "'deployment/web; rm -rf ~' -n shop -p - --if-denied --policy ClusterObjectPolicy/tags --reason WHY --owner WHO",
		"failing+,denied+ CREATE Deployment shop/web ann PolicyCandidate shop/c, ClusterObjectPolicy tags",
		"ClusterObjectPolicy tags spec.validations: rejected by spec.validations[0]",
		"exempt it: kubectl get policycandidate c -n shop " + command + "deployment/web -n shop -p - --if-denied --policy ClusterObjectPolicy/tags --reason WHY --owner WHO",
		"allowed+ CREATE Deployment shop/(new) ann ClusterPolicyCandidate c, ClusterObjectPolicy tags",
		"ClusterObjectPolicy tags spec.validations: rejected by spec.validations[0]",
		"no op.+ get secrets shop/x jane ClusterPolicyCandidate c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s.query != "last=100&outcome=denied&watch=true" {
		t.Errorf("asked for %s", s.query)
	}
}

// TestWatchJSON: programs get an object a line, also of what was lost.
func TestWatchJSON(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	w := watch(t, "secret", []*replica{r}, "-o", "json")
	s := r.stream()
	s.write <- decision("p-1", 1, named("<one>")) + "event: lost\ndata: {\"lost\":4}\n\n" + current
	w.out.wait(t, `"lost":4`)
	w.end()
	want := fmt.Sprintf(`{"replica":%q,"sequence":0,"time":"2026-01-02T12:00:01Z","phase":"","operation":"CREATE","kind":"Pod","name":"<one>","user":"ann","verdict":"allow","tookSeconds":0}
{"replica":%q,"lost":4}
`, r.server.URL, r.server.URL)
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWatchOnce: a list of each replica, and no waiting.
func TestWatchOnce(t *testing.T) {
	t.Parallel()
	a, b := newReplica(t), newReplica(t)
	w := watch(t, "secret", []*replica{a, b}, "--once", "--last", "2")
	for i, r := range []*replica{a, b} {
		s := r.stream()
		items := []string{}
		for _, second := range []int{1, 3} {
			d := named(fmt.Sprintf("%c%d", 'a'+i, second+i))
			d.Time = noon.Add(time.Duration(second+i) * time.Second)
			text, err := d.JSON()
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, string(text))
		}
		s.write <- `{"kind":"DecisionList","items":[` + strings.Join(items, ",") + `],"lost":0}`
		close(s.write)
		if s.query != "last=2" {
			t.Errorf("the query is %s", s.query)
		}
	}
	if err := <-w.ended; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a3", "b4"}, names(w.out.String())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWatchSince: all that replicas keep of a time is asked for once, and how far back that goes is said after it.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	w := watch(t, "secret", []*replica{r}, "--since", "1d", "--slower-than", "100ms")
	s := r.stream()
	if s.query != "last=8192&since=24h0m0s&slowerThan=100ms&watch=true" {
		t.Errorf("the query is %s", s.query)
	}
	oldest := time.Now().Add(-time.Hour)
	s.write <- decision("p-1", 1, named("one")) + fmt.Sprintf("id: p-1\nevent: current\ndata: {\"oldest\":%q}\n\n", oldest.UTC().Format(time.RFC3339Nano))
	w.err.wait(t, "its decisions go back to "+oldest.UTC().Format(time.RFC3339)+", 1h0m")
	w.err.wait(t, "older ones are in its log")
	if !strings.Contains(w.out.String(), "Z allowed") || !strings.Contains(w.out.String(), "one") {
		t.Errorf("without the date, or it is said before the decisions: %s", w.out.String())
	}
	close(s.write)
	// What was missed meanwhile is shown, however old it is.
	if s = r.stream(); strings.Contains(s.query, "since") {
		t.Errorf("it resumes with %s", s.query)
	}
	w.end()

	w = watch(t, "secret", []*replica{r}, "--since", "30m", "--once", "--last", "7")
	s = r.stream()
	if s.query != "last=7&since=30m0s" {
		t.Errorf("the query is %s", s.query)
	}
	s.write <- fmt.Sprintf(`{"kind":"DecisionList","items":[],"lost":0,"oldest":%q}`, oldest.UTC().Format(time.RFC3339Nano))
	close(s.write)
	if err := <-w.ended; err != nil || !strings.Contains(w.err.String(), "its decisions go back to") || strings.Contains(w.err.String(), "if there were any") {
		t.Errorf("%v: %s", err, w.err.String())
	}
}

// TestWatchLosesAReplica: the others go on.
func TestWatchLosesAReplica(t *testing.T) {
	t.Parallel()
	a, b := newReplica(t), newReplica(t)
	b.server.Close()
	w := watch(t, "secret", []*replica{a, b})
	s := a.stream()
	s.write <- decision("p-1", 1, named("one")) + current
	w.out.wait(t, "one")
	w.err.wait(t, "replica "+b.server.URL+": lost: ")
	w.end()
}

// TestWatchUntrusted: what to do about a certificate is said, as nobody else will mend it.
func TestWatchUntrusted(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	r.server.URL = strings.Replace(r.server.URL, "127.0.0.1", "localhost", 1)
	w := watch(t, "secret", []*replica{r})
	w.err.wait(t, "trying again; name the CA of the server's certificate with --ca-file")
	w.end()
}

// TestWatchWithoutDecisions: an empty list says how far back the decisions go.
func TestWatchWithoutDecisions(t *testing.T) {
	t.Parallel()
	a := newReplica(t)
	w := watch(t, "secret", []*replica{a}, "--denied")
	oldest := time.Now().Add(-time.Hour)
	a.stream().write <- fmt.Sprintf("id: p-1\nevent: current\ndata: {\"oldest\":%q}\n\n", oldest.UTC().Format(time.RFC3339Nano))
	w.err.wait(t, "nothing yet: its decisions go back to "+oldest.UTC().Format(time.RFC3339)+", 1h0m")
	w.end()
}

// TestWatchOnceWithoutDecisions: that there is nothing is said, and where there may be more.
func TestWatchOnceWithoutDecisions(t *testing.T) {
	t.Parallel()
	a := newReplica(t)
	w := watch(t, "secret", []*replica{a}, "--once", "--denied")
	s := a.stream()
	s.write <- `{"kind":"DecisionList","items":[],"lost":0}`
	close(s.write)
	if err := <-w.ended; err != nil {
		t.Fatal(err)
	}
	if w.out.String() != "" || !strings.Contains(w.err.String(), "older ones are in their logs") || !strings.Contains(w.err.String(), ": it lists no decisions: ") {
		t.Errorf("%q, %q", w.out.String(), w.err.String())
	}
}
