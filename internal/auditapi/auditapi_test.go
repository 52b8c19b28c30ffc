package auditapi_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/result/resulttest"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
)

// What the API of delegated uses logs on its own.
func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// reader returns a reader of results by namespace.
func reader(namespaces map[string][]result.Result) *resulttest.Reader {
	r := &resulttest.Reader{Pass: 10, States: []result.KindState{
		{Kind: result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node"}, Objects: 3},
		{Kind: result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}, Objects: 70, Err: errors.New("pods is forbidden: User system:serviceaccount:usher-system:usher")},
	}}
	for name, results := range namespaces {
		r.Set(name, results)
	}
	return r
}

// of returns n failures of a namespace.
func of(namespace string, n int) []result.Result {
	var all []result.Result
	for i := range n {
		status := result.Fail
		if i%5 == 4 {
			status = result.Error
		}
		all = append(all, result.Result{
			Object: result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("pod-%04d", i)},
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: fmt.Sprint("policy-", i%3)}, Rule: "spec.validations[0]", Status: status, Message: "no",
		})
	}
	return all
}

type rig struct {
	t      *testing.T
	server *httptest.Server
	tokens map[string]string
}

// newRig serves the results of a reader to admin, who sees all, and to ann, who sees the namespace
// shop.
func newRig(t *testing.T, o auditapi.Options) *rig {
	t.Helper()
	cluster := delegatedtest.NewCluster(t)
	api, err := delegated.New(delegated.Options{
		Client: cluster.Client, Audiences: []string{delegatedtest.Audience}, Log: slog.New(slog.DiscardHandler),
		Handlers: map[string]http.Handler{delegated.AuditResults: auditapi.New(o)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, server: httptest.NewTLSServer(api), tokens: map[string]string{}}
	t.Cleanup(r.server.Close)
	for _, verb := range delegated.Verbs() {
		cluster.Grant("admin", verb, delegated.AuditResults, "")
		cluster.Grant("ann", verb, delegated.AuditResults, "shop")
	}
	for _, user := range []string{"admin", "ann"} {
		r.tokens[user] = cluster.Token(user, delegatedtest.Audience)
	}
	return r
}

func reading(r result.Reader) auditapi.Options {
	return auditapi.Options{Reader: func() result.Reader { return r }}
}

// get returns the status and the body of a response.
func (r *rig) get(user, path string) (int, []byte) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server.URL+"/usher/v1/"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.tokens[user])
	response, err := r.server.Client().Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, body
}

// list reads all pages.
func (r *rig) list(user, path string) (items []result.Result, summary result.Summary, pages int) {
	r.t.Helper()
	next := ""
	for {
		code, body := r.get(user, path+"&continue="+next)
		if code != http.StatusOK {
			r.t.Fatalf("%s: status %d: %s", path, code, body)
		}
		if len(body) > 100<<10 {
			r.t.Errorf("%s: a page of %d bytes", path, len(body))
		}
		var list auditapi.List
		if err := json.Unmarshal(body, &list); err != nil {
			r.t.Fatal(err)
		}
		items = append(items, list.Items...)
		summary.Merge(list.Summary)
		if pages++; list.Metadata.Continue == "" {
			return items, summary, pages
		}
		next = list.Metadata.Continue
	}
}

func TestResultsAreGuarded(t *testing.T) {
	t.Parallel()
	delegatedtest.Run(t, delegated.AuditResults, auditapi.New(reading(reader(map[string][]result.Result{"shop": of("shop", 3)}))))
}

func TestPages(t *testing.T) {
	t.Parallel()
	has := map[string][]result.Result{"": of("", 7), "bank": of("bank", 0), "lab": of("lab", 5000), "shop": of("shop", 11)}
	all := slices.Concat(has[""], has["lab"], has["shop"])
	r := newRig(t, reading(reader(has)))
	only := func(keep func(*result.Result) bool) []result.Result {
		return slices.DeleteFunc(slices.Clone(all), func(one result.Result) bool { return !keep(&one) })
	}
	for _, row := range []struct {
		reason, user, path string
		want               []result.Result
	}{
		{"all", "admin", "auditresults?", all},
		{"pages that end within namespaces, and with them", "admin", "auditresults?limit=9", all},
		{"one result a page", "ann", "namespaces/shop/auditresults?limit=1", has["shop"]},
		{"a limit above the maximum", "admin", "auditresults?limit=100000", all},
		{"a namespace", "admin", "namespaces/shop/auditresults?", has["shop"]},
		{"a namespace without results", "admin", "namespaces/bank/auditresults?", nil},
		{"a namespace that there is not", "admin", "namespaces/nowhere/auditresults?", nil},
		{"a policy", "admin", "auditresults?policy=policy-1&limit=7", only(func(r *result.Result) bool { return r.Policy.Name == "policy-1" })},
		{"a status", "admin", "auditresults?status=error,warn", only(func(r *result.Result) bool { return r.Status == result.Error })},
		{"a kind", "admin", "auditresults?kind=pod&limit=1000", all},
		{"another kind", "admin", "auditresults?kind=Node", nil},
	} {
		got, _, _ := r.list(row.user, row.path)
		if diff := gocmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reason, diff)
		}
	}
	_, body := r.get("admin", "auditresults?policy=policy-1&status=warn")
	var list auditapi.List
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]result.PolicySummary{{PolicyRef: all[1].Policy, Summary: resulttest.CountsOf(0, all)[all[1].Policy]}}, list.Policies); diff != "" {
		t.Errorf("the counts of a policy (-want +got):\n%s", diff)
	}
	_, summary, pages := r.list("admin", "auditresults?limit=9&status=warn")
	if want := (result.Summary{Fail: 6 + 4000 + 9, Error: 1 + 1000 + 2, Pass: 40}); summary != want || pages != 1 {
		t.Errorf("the summary is %+v on %d pages, want %+v on one", summary, pages, want)
	}
}

// TestFiltersThatSelectLittle ends pages although there is nothing on them.
func TestFiltersThatSelectLittle(t *testing.T) {
	t.Parallel()
	r := newRig(t, reading(reader(map[string][]result.Result{"lab": of("lab", 50_000)})))
	if got, _, pages := r.list("admin", "auditresults?kind=Node"); len(got) > 0 || pages < 2 {
		t.Errorf("%d results on %d pages, want 0 on several", len(got), pages)
	}
}

// TestChangesBetweenPages continues behind the last result that the client got, or says that it
// cannot.
func TestChangesBetweenPages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		change func([]result.Result) []result.Result
		first  string
		code   int
	}{
		{"results before have gone", func(all []result.Result) []result.Result { return all[3:] }, "pod-0005", http.StatusOK},
		{"a result before is new", func(all []result.Result) []result.Result { return append(of("a", 1), all...) }, "pod-0005", http.StatusOK},
		{"the last one has gone", func(all []result.Result) []result.Result { return slices.Delete(all, 4, 5) }, "", http.StatusGone},
		{"the namespace has gone", func([]result.Result) []result.Result { return nil }, "", http.StatusGone},
	} {
		source := reader(map[string][]result.Result{"shop": of("shop", 10)})
		r := newRig(t, reading(source))
		_, body := r.get("ann", "namespaces/shop/auditresults?limit=5")
		var list auditapi.List
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		source.Set("shop", row.change(of("shop", 10)))
		code, body := r.get("ann", "namespaces/shop/auditresults?limit=5&continue="+list.Metadata.Continue)
		var next auditapi.List
		if err := json.Unmarshal(body, &next); err != nil || code != row.code {
			t.Errorf("%s: status %d, %v, want %d", row.reason, code, err, row.code)
			continue
		}
		if code == http.StatusOK && next.Items[0].Object.Name != row.first {
			t.Errorf("%s: the next page begins with %s, want %s", row.reason, next.Items[0].Object.Name, row.first)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, reading(reader(map[string][]result.Result{"shop": of("shop", 3), "bank": of("bank", 3)})))
	bank := `{"n":"bank","i":0,"h":"0","s":true}`
	for _, row := range []struct {
		reason, user, path string
		code               int
		text               string
	}{
		{"a name", "ann", "namespaces/shop/auditresults/x", http.StatusNotFound, "results have no names"},
		{"a watch", "ann", "namespaces/shop/auditresults?watch=true", http.StatusNotFound, "results cannot be watched"},
		{"a misspelled filter", "ann", "namespaces/shop/auditresults?polici=x", http.StatusBadRequest, `there is no parameter \"polici\"`},
		{"no limit", "ann", "namespaces/shop/auditresults?limit=-1", http.StatusBadRequest, "is not a number from 1 to 1000"},
		{"no status", "ann", "namespaces/shop/auditresults?status=bad", http.StatusBadRequest, `status \"bad\" is none of`},
		{"a forged page", "ann", "namespaces/shop/auditresults?continue=x", http.StatusBadRequest, "is not that of a page"},
		{"another namespace", "ann", "namespaces/bank/auditresults", http.StatusForbidden, "cannot list resource"},
		{"all namespaces", "ann", "auditresults", http.StatusForbidden, "cannot list resource"},
	} {
		code, body := r.get(row.user, row.path)
		var status metav1.Status
		if err := json.Unmarshal(body, &status); err != nil || code != row.code || !strings.Contains(string(body), row.text) {
			t.Errorf("%s: status %d, %s, want %d and %q", row.reason, code, body, row.code, row.text)
		}
	}
	_, body := r.get("ann", "namespaces/shop/auditresults?continue="+encoded(bank))
	if strings.Contains(string(body), "bank") {
		t.Errorf("a page of another namespace shows it: %s", body)
	}
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestKinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, reading(reader(map[string][]result.Result{"shop": of("shop", 1)})))
	var all, one auditapi.List
	for path, list := range map[string]*auditapi.List{"auditresults": &all, "namespaces/shop/auditresults": &one} {
		_, body := r.get("admin", path)
		if err := json.Unmarshal(body, list); err != nil {
			t.Fatal(err)
		}
	}
	if len(all.Kinds) != 2 || all.Kinds[1].Objects != 70 || !strings.Contains(all.Kinds[1].Error, "forbidden") {
		t.Errorf("the kinds of the cluster are %+v", all.Kinds)
	}
	if want := []result.KindStatus{{Version: "v1", Resource: "pods", Kind: "Pod", Error: "cannot be read"}}; !slices.Equal(one.Kinds, want) {
		t.Errorf("the kinds of a namespace are %+v, want %+v", one.Kinds, want)
	}
}

func TestReplicasWithoutResults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		o      auditapi.Options
		code   int
		text   string
	}{
		{"the audit is off", auditapi.Options{}, http.StatusNotFound, "the audit is off"},
		{"another replica leads", auditapi.Options{Reader: func() result.Reader { return nil }, Leader: func() string { return "usher-1" }}, http.StatusServiceUnavailable, "replica usher-1 audits the cluster"},
		{"nobody knows which", auditapi.Options{Reader: func() result.Reader { return nil }}, http.StatusServiceUnavailable, "another replica audits the cluster"},
	} {
		if code, body := newRig(t, row.o).get("ann", "namespaces/shop/auditresults"); code != row.code || !strings.Contains(string(body), row.text) {
			t.Errorf("%s: status %d, %s", row.reason, code, body)
		}
	}
}

// TestPagesAreMadeOneAtATime holds the bound of memory: the results of one namespace, for all callers.
func TestPagesAreMadeOneAtATime(t *testing.T) {
	t.Parallel()
	source := &slowReader{Reader: reader(map[string][]result.Result{"shop": of("shop", 3)})}
	r := newRig(t, reading(source))
	var callers sync.WaitGroup
	// As many as one user may have.
	for range 16 {
		callers.Go(func() {
			if code, body := r.get("ann", "namespaces/shop/auditresults"); code != http.StatusOK {
				t.Errorf("status %d: %s", code, body)
			}
		})
	}
	callers.Wait()
	if source.most != 1 {
		t.Errorf("%d pages were made at the same time", source.most)
	}
}

// A slowReader counts how many calls there are at the same time.
type slowReader struct {
	*resulttest.Reader

	counting  sync.Mutex
	now, most int
}

func (s *slowReader) Namespace(name string) ([]result.Result, result.Counts) {
	s.counting.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.counting.Unlock()
	time.Sleep(time.Millisecond)
	s.counting.Lock()
	s.now--
	s.counting.Unlock()
	return s.Reader.Namespace(name)
}
