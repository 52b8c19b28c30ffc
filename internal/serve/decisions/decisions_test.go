package decisions_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/decisions"
)

func TestDecisionsAreGuarded(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	decided(ring, "shop", "web", usher.Allowed())
	delegatedtest.Run(t, delegated.Decisions, decisions.NewTimed(ring, time.Minute))
}

// TestCandidateDecisionsAreGuarded: those of candidates are behind a right of their own.
func TestCandidateDecisionsAreGuarded(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	for _, namespace := range []string{"shop", "lab"} {
		ring.Differs(&rule.CandidateDifference{
			Candidate: usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, At: time.Now(), Kinds: []string{"denied"},
			Request: &usher.Request{Phase: usher.Validate, Namespace: namespace, Name: "web"}, Decision: usher.Decision{Verdict: usher.Deny},
		})
	}
	delegatedtest.Run(t, delegated.CandidateDecisions, decisions.New(ring, "CandidateDecisionList"))
}

func decided(ring *recent.Ring, namespace, name string, d usher.Decision) {
	ring.Add(&usher.Request{Phase: usher.Validate, Namespace: namespace, Name: name, User: usher.User{Name: "ann"}}, &d, nil, time.Now())
}

// A rig serves the decisions of a ring.
type rig struct {
	t       *testing.T
	ring    *recent.Ring
	cluster *delegatedtest.Cluster
	server  *httptest.Server
	token   string
}

func newRig(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, ring: &recent.Ring{}, cluster: delegatedtest.NewCluster(t)}
	api, err := delegated.New(delegated.Options{
		Client: r.cluster.Client, Audiences: []string{delegatedtest.Audience}, Log: slog.New(slog.DiscardHandler),
		Handlers: map[string]http.Handler{delegated.Decisions: decisions.NewTimed(r.ring, timeout)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewUnstartedServer(api)
	r.server.EnableHTTP2 = true
	r.server.StartTLS()
	t.Cleanup(func() { r.ring.End(); r.server.CloseClientConnections(); r.server.Close() })
	for _, verb := range delegated.Verbs() {
		r.cluster.Grant("ann", verb, delegated.Decisions, "")
	}
	r.token = r.cluster.Token("ann", delegatedtest.Audience)
	return r
}

func (r *rig) get(path, token, seen string) *http.Response {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server.URL+"/usher/v1/"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if seen != "" {
		request.Header.Set("Last-Event-ID", seen)
	}
	response, err := r.server.Client().Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// list returns the names in a list, and how many were lost.
func (r *rig) list(path string) (names []string, lost int) {
	r.t.Helper()
	response := r.get(path, r.token, "")
	got := struct {
		Kind  string
		Items []recent.Decision
		Lost  int
	}{}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Kind != "DecisionList" {
		r.t.Errorf("%s: status %d, %v: %s", path, response.StatusCode, err, got.Kind)
	}
	for i := range got.Items {
		names = append(names, got.Items[i].Name)
	}
	return names, got.Lost
}

func TestDecisionsList(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	if names, _ := r.list("decisions"); names != nil {
		t.Errorf("before the first decision there are %v", names)
	}
	for i := range 300 {
		decided(r.ring, "shop", fmt.Sprint("web-", i), usher.Allowed())
	}
	decided(r.ring, "bank", "vault", usher.Denied("no"))
	// How far back the decisions of a namespace go is not what there is in others.
	for path, want := range map[string]bool{"decisions": true, "namespaces/bank/decisions": true, "namespaces/lab/decisions": false} {
		var got struct{ Oldest time.Time }
		if err := json.NewDecoder(r.get(path, r.token, "").Body).Decode(&got); err != nil || got.Oldest.IsZero() == want {
			t.Errorf("%s: the oldest decision is from %s, %v", path, got.Oldest, err)
		}
		e, err := sse{}, error(nil)
		for read := events(r.get(path+"?watch=true", r.token, "")); err == nil && e.event != "current"; e, err = read() {
		}
		if err != nil || strings.Contains(e.data, `{"oldest":"20`) != want {
			t.Errorf("%s: %v: %+v", path, err, e)
		}
	}
	for _, row := range []struct {
		reason, path string
		want         int
		last         string
	}{
		{"the last hundred", "decisions", 100, "vault"},
		{"fewer", "decisions?last=3", 3, "vault"},
		{"none", "decisions?last=0", 0, ""},
		{"more than one batch", "decisions?last=8192", 301, "vault"},
		{"a namespace", "namespaces/shop/decisions?last=8192", 300, "web-299"},
		{"a parameter is no namespace", "namespaces/shop/decisions?namespace=bank&last=1", 1, "web-299"},
		{"denials", "decisions?outcome=denied", 1, "vault"},
		{"another user", "decisions?user=bob", 0, ""},
	} {
		names, lost := r.list(row.path)
		if len(names) != row.want || lost != 0 || row.want > 0 && names[row.want-1] != row.last {
			t.Errorf("%s: %d decisions, the last of %v; %d lost", row.reason, len(names), names, lost)
		}
	}
	for path, want := range map[string]int{
		"decisions?last=-1": http.StatusBadRequest, "decisions?last=9000": http.StatusBadRequest, "decisions?last=x": http.StatusBadRequest,
		"decisions?outcome=bad": http.StatusBadRequest, "decisions?since=x": http.StatusBadRequest, "decisions?slowerThan=-1s": http.StatusBadRequest, "decisions/x": http.StatusNotFound,
	} {
		if got := r.get(path, r.token, "").StatusCode; got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

// An sse is a server-sent event.
type sse struct{ id, event, data string }

// events reads the events of a stream.
func events(response *http.Response) func() (sse, error) {
	lines := bufio.NewReader(response.Body)
	return func() (e sse, err error) {
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				return e, err
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.event = value
			case "data":
				e.data = value
			case "":
				return e, nil
			}
		}
	}
}

// next returns the next decision, or what was lost.
func (r *rig) next(read func() (sse, error)) (id, what string) {
	r.t.Helper()
	for {
		e, err := read()
		if err != nil {
			r.t.Fatalf("the stream ends: %v", err)
		}
		if e.event == "at" || e.event == "current" {
			continue
		}
		d := recent.Decision{}
		if err := json.Unmarshal([]byte(e.data), &d); err != nil {
			r.t.Fatalf("%+v: %v", e, err)
		}
		if e.event == "decision" {
			return e.id, d.Name
		}
		return e.id, e.event + " " + e.data
	}
}

// TestDecisionsWatch: a stream begins with the last ones, goes on with new ones, and is resumed where
// it ended.
func TestDecisionsWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		decided(r.ring, "shop", name, usher.Allowed())
	}
	response := r.get("namespaces/shop/decisions?watch=true&last=2", r.token, "")
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the content type is %s", got)
	}
	read := events(response)
	var seen string
	for _, want := range []string{"b", "c"} {
		var name string
		if seen, name = r.next(read); name != want {
			t.Errorf("it begins with %s, want %s", name, want)
		}
	}
	decided(r.ring, "bank", "vault", usher.Allowed())
	decided(r.ring, "shop", "d", usher.Allowed())
	if _, name := r.next(read); name != "d" {
		t.Errorf("then there is %s", name)
	}
	_ = response.Body.Close()
	if _, name := r.next(events(r.get("namespaces/shop/decisions?watch=true&last=0", r.token, seen))); name != "d" {
		t.Errorf("resumed after c it begins with %s", name)
	}
	if _, name := r.next(events(r.get("decisions?watch=true&last=1", r.token, "other-3"))); name != "d" {
		t.Errorf("resumed after a decision of another process it begins with %s", name)
	}
	for i := range recent.Size + 3 {
		decided(r.ring, "shop", fmt.Sprint(i), usher.Allowed())
	}
	read = events(r.get("namespaces/shop/decisions?watch=true", r.token, seen))
	// After c there were vault and d, and then these. Kept are the last ones of all and of the namespace,
	// and vault, unless both namespaces have the same share.
	const kept = recent.Size/2 + 16
	if _, lost := r.next(read); lost != fmt.Sprintf(`lost {"lost":%d}`, recent.Size+4-kept) && lost != fmt.Sprintf(`lost {"lost":%d}`, recent.Size+5-kept) {
		t.Errorf("resumed too late there is %q", lost)
	}
	if _, name := r.next(read); name != fmt.Sprint(recent.Size+3-kept) {
		t.Errorf("then there is %s", name)
	}
}

// TestDecisionsOfANamespace: who has the right to one namespace sees nothing else.
func TestDecisionsOfANamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	r.cluster.Grant("bob", "watch", delegated.Decisions, "shop")
	bob := r.cluster.Token("bob", delegatedtest.Audience)
	for path, want := range map[string]int{
		"decisions?watch=true": http.StatusForbidden, "namespaces/bank/decisions?watch=true": http.StatusForbidden, "namespaces/shop/decisions?watch=true": http.StatusOK,
	} {
		if got := r.get(path, bob, "").StatusCode; got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	read := events(r.get("namespaces/shop/decisions?watch=true", bob, ""))
	for i, namespace := range []string{"bank", "", "shop-2", "SHOP", "shop"} {
		decided(r.ring, namespace, fmt.Sprint(i), usher.Allowed())
	}
	if _, name := r.next(read); name != "4" {
		t.Errorf("bob sees %s", name)
	}
}

func TestDecisionsEndAtShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	read := events(r.get("decisions?watch=true", r.token, ""))
	if e, err := read(); err != nil || e.event != "at" {
		t.Fatalf("the stream begins with %+v: %v", e, err)
	}
	r.ring.End()
	if _, end := r.next(read); end != `end {"reason":"shutting down"}` {
		t.Errorf("it says %q", end)
	}
	if _, err := read(); !errors.Is(err, io.EOF) {
		t.Errorf("then it is %v", err)
	}
	if got := r.get("decisions?watch=true", r.token, "").StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("later clients get the status %d", got)
	}
}

// TestDecisionsOfManyClients: of more clients than are served those of the greediest user are ended.
func TestDecisionsOfManyClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	watch := func(user string) *http.Response {
		r.cluster.Grant(user, "watch", delegated.Decisions, "")
		return r.get("decisions?watch=true", r.cluster.Token(user, delegatedtest.Audience), "")
	}
	var robots []*http.Response
	for i := range recent.MostSubscribers {
		// No user has more than a quarter of the requests that are served at the same time.
		robots = append(robots, watch(fmt.Sprintf("system:serviceaccount:%s:robot-%d", []string{"shop", "bank"}[i%2], i)))
	}
	late := watch("system:serviceaccount:shop:late")
	if late.StatusCode != http.StatusTooManyRequests || late.Header.Get("Retry-After") == "" {
		t.Errorf("one more ServiceAccount of the namespace: status %d", late.StatusCode)
	}
	if got := watch("bob").StatusCode; got != http.StatusOK {
		t.Errorf("somebody else: status %d", got)
	}
	if _, end := r.next(events(robots[len(robots)-1])); !strings.HasPrefix(end, "end ") {
		t.Errorf("the last robot gets %q", end)
	}
}

// TestDecisionsAfterAPause: a stream without decisions stays open for longer than a client may take to receive one.
func TestDecisionsAfterAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Second)
	response := r.get("decisions?watch=true", r.token, "")
	if response.ProtoMajor != 2 {
		t.Errorf("the protocol is %s", response.Proto)
	}
	read := events(response)
	// The first one is that with which the stream begins, and the fourth one is written after the deadline of that.
	for at := 0; at < 4; {
		e, err := read()
		if err != nil {
			t.Fatalf("the stream ends: %v", err)
		}
		if e.event == "at" {
			at++
		}
	}
	decided(r.ring, "shop", "cart", usher.Allowed())
	if _, name := r.next(read); name != "cart" {
		t.Errorf("then there is %s", name)
	}
}

// TestDecisionsForSlowReaders: a client that does not read, or a byte at a time, is disconnected, and
// decisions do not wait for it.
func TestDecisionsForSlowReaders(t *testing.T) {
	t.Parallel()
	for reason, read := range map[string]func(context.Context, net.Conn){
		"no reading": func(ctx context.Context, _ net.Conn) { <-ctx.Done() },
		"a byte at a time": func(ctx context.Context, c net.Conn) {
			for ctx.Err() == nil {
				_, _ = io.CopyN(io.Discard, c, 1)
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 200*time.Millisecond)
			dialed, err := tls.Dial("tcp", r.server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = dialed.Close() }()
			if _, err := fmt.Fprintf(dialed, "GET /usher/v1/decisions?watch=true HTTP/1.1\r\nHost: usher\r\nAuthorization: Bearer %s\r\n\r\n", r.token); err != nil {
				t.Fatal(err)
			}
			go read(t.Context(), dialed)
			subscribers := func() int { n, _ := r.ring.Subscribers(); return n }
			wait(t, "it is served", func() bool { return subscribers() == 1 })
			long := strings.Repeat("x", 253)
			wait(t, "it is disconnected", func() bool {
				for range 2000 {
					decided(r.ring, long, long, usher.Allowed())
				}
				return subscribers() == 0
			})
			if diff := cmp.Diff(true, r.ring.Next() >= 2000); diff != "" {
				t.Error("no decisions were made")
			}
		})
	}
}

// wait waits until something is so.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestListsForSlowReaders: a client that reads a list slowly, and steadily, does not keep its slot for
// longer than a request may take.
func TestListsForSlowReaders(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	for i := range recent.Size {
		decided(ring, "shop", fmt.Sprint(i), usher.Allowed())
	}
	r := newRig(t, time.Minute)
	w, end := &deadlines{ResponseRecorder: httptest.NewRecorder()}, time.Time{}
	api, err := delegated.New(delegated.Options{
		Client: r.cluster.Client, Audiences: []string{delegatedtest.Audience}, Log: slog.New(slog.DiscardHandler),
		Handlers: map[string]http.Handler{delegated.Decisions: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			end, _ = r.Context().Deadline()
			decisions.NewTimed(ring, time.Hour).ServeHTTP(w, r)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/usher/v1/decisions?last=8192", nil)
	request.Header.Set("Authorization", "Bearer "+r.token)
	api.ServeHTTP(w, request)
	if w.Code != http.StatusOK || len(w.set) < 10 {
		t.Fatalf("status %d, with %d deadlines: %s", w.Code, len(w.set), w.Body)
	}
	// The first one is that of a response without a handler, the second one that before the handler.
	for _, set := range w.set[2:] {
		if end.IsZero() || set.After(end) {
			t.Fatalf("a part may be received until %s, and the request ends at %s", set, end)
		}
	}
}

// deadlines records the deadlines of writes.
type deadlines struct {
	*httptest.ResponseRecorder

	set []time.Time
}

// SetWriteDeadline is that of connections.
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}
