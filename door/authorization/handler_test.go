package authorization_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/internal/printable/printabletest"
)

const small = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"jane","resourceAttributes":{"verb":"get"}}}`

// spec is a review with this spec.
func spec(text string) string {
	return strings.Replace(small, `{"user":"jane","resourceAttributes":{"verb":"get"}}`, text, 1)
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		method string
		header map[string]string
		body   string
		code   int
		text   string
	}{
		{reason: "wrong method", method: "GET", body: small, code: 405, text: "method GET is not allowed: send reviews with POST"},
		{reason: "no content type", header: map[string]string{"Content-Type": ""}, body: small, code: 415, text: `Content-Type is "": expected application/json`},
		{reason: "wrong content type", header: map[string]string{"Content-Type": "text/plain"}, body: small, code: 415, text: `Content-Type is "text/plain": expected application/json`},
		{reason: "compressed", header: map[string]string{"Content-Encoding": "gzip"}, body: "\x1f\x8b", code: 415, text: `Content-Encoding is "gzip": expected a body without encoding`},
		{reason: "empty body", code: 400, text: "body is empty: expected a SubjectAccessReview"},
		{reason: "truncated", body: `{"apiVersion":`, code: 400, text: "decode SubjectAccessReview: JSON ends too early, after 14 bytes"},
		{reason: "trailing data", body: small + "{}", code: 400, text: "decode SubjectAccessReview: JSON is broken at byte 128, '{': unexpected data after the value"},
		{reason: "an array", body: "[]", code: 400, text: "decode SubjectAccessReview: body is an array: expected an object"},
		{reason: "not UTF-8", body: spec(`{"user":"` + "\xff" + `","nonResourceAttributes":{}}`), code: 400, text: "body is not UTF-8 throughout"},
		{reason: "half a pair", body: spec(`{"user":"\ud83d","nonResourceAttributes":{}}`), code: 400, text: "decode SubjectAccessReview: a string has half a UTF-16 surrogate pair in it"},
		{reason: "half a pair before the version", body: `{"kind":"\ud83d","spec":{},"apiVersion":"authorization.k8s.io/v1"}`, code: 400, text: "decode SubjectAccessReview: body is not UTF-8 throughout"},
		{reason: "another kind", body: strings.Replace(small, `"Subject`, `"SelfSubject`, 1), code: 400, text: `kind is "SelfSubjectAccessReview": expected SubjectAccessReview`},
		{reason: "unknown version", body: strings.Replace(small, "/v1", "/v2", 1), code: 400, text: `apiVersion is "authorization.k8s.io/v2": expected authorization.k8s.io/v1 or authorization.k8s.io/v1beta1`},
		{reason: "no version", body: `{"kind":"SubjectAccessReview","spec":{"nonResourceAttributes":{}}}`, code: 400, text: `apiVersion is "": expected authorization.k8s.io/v1 or authorization.k8s.io/v1beta1`},
		{reason: "both kinds of attributes", body: spec(`{"resourceAttributes":{},"nonResourceAttributes":{}}`), code: 400, text: "spec has both resourceAttributes and nonResourceAttributes; set exactly one"},
		{reason: "neither", body: spec(`{"user":"jane"}`), code: 400, text: "spec has neither resourceAttributes nor nonResourceAttributes; set exactly one"},
		{reason: "no spec", body: spec(`null`), code: 400, text: "spec has neither resourceAttributes nor nonResourceAttributes; set exactly one"},
		{reason: "a selector twice", body: spec(`{"resourceAttributes":{"labelSelector":{"rawSelector":"a=b","requirements":[{"key":"a"}]}}}`), code: 400, text: "decode SubjectAccessReview: a selector has both rawSelector and requirements; set exactly one"},
		{reason: "a key twice", body: spec(`{"user":"jane","user":"root","nonResourceAttributes":{}}`), code: 400, text: "decode SubjectAccessReview: spec.user is there twice"},
		{reason: "a key twice, once with escapes", body: spec(`{"user":"jane","\u0075ser":"root","nonResourceAttributes":{}}`), code: 400, text: "decode SubjectAccessReview: spec.user is there twice"},
		{reason: "a key twice where nobody looks", body: spec(`{"future":[{"a":1,"a":2}],"nonResourceAttributes":{}}`), code: 400, text: "decode SubjectAccessReview: spec.future.a is there twice"},
		{reason: "an extra key twice", body: spec(`{"extra":{"a":[],"a":[]},"nonResourceAttributes":{}}`), code: 400, text: "decode SubjectAccessReview: spec.extra.a is there twice"},
		{reason: "user is a number", body: spec(`{"user":1}`), code: 400, text: "decode SubjectAccessReview: spec.user is a number: expected a string"},
		{reason: "groups are text", body: spec(`{"groups":"devs"}`), code: 400, text: "decode SubjectAccessReview: spec.groups is a string: expected an array"},
		{reason: "wrong before the version is known", body: `{"kind":"SubjectAccessReview","spec":{"user":1},"apiVersion":"authorization.k8s.io/v1"}`, code: 400, text: "decode SubjectAccessReview: spec: user is a number: expected a string"},
		{reason: "too large", body: strings.Replace(small, `"spec"`, strings.Repeat(" ", 1<<20)+`"spec"`, 1), code: 413, text: "body is larger than 1048576 bytes"},
		{reason: "nested too deep", body: spec(`{"future":` + strings.Repeat(`{"a":`, 2000)), code: 400, text: "decode SubjectAccessReview: values are nested more than 1000 levels deep"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			called := false
			decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
				called = true
				return usher.Allowed(), nil
			})
			method := row.method
			if method == "" {
				method = http.MethodPost
			}
			options := quiet()
			options.Shadow = strings.HasPrefix(row.reason, "a ")
			for path, h := range doors(decider, options) {
				r := httptest.NewRequest(method, path, strings.NewReader(row.body))
				r.Header.Set("Content-Type", "application/json")
				for key, value := range row.header {
					r.Header.Set(key, value)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != row.code || got != row.text {
					t.Errorf("%s: got %d %s\nwant %d %s", path, w.Code, got, row.code, row.text)
				}
				if allow := w.Header().Get("Allow"); (allow == "POST") != (row.code == 405) || w.Header().Get("Retry-After") != "" {
					t.Errorf("%s: header is %v", path, w.Header())
				}
				if called {
					t.Errorf("%s: the decider was asked", path)
				}
			}
		})
	}
}

func TestUnusualReviewsAreDecided(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"g",`, 100)
	for _, row := range []struct{ reason, body string }{
		{"fields of later versions", spec(`{"conditionalAuthorization":{"mode":"Optimized","x":[1,-2.5e+3,true,null]},"nonResourceAttributes":{}}`)},
		{"the groups of the other version", spec(`{"group":5,"nonResourceAttributes":{}}`)},
		{"keys in another case", spec(`{"Groups":5,"USER":[],"nonResourceAttributes":{}}`)},
		{"everything is null", spec(`{"user":null,"uid":null,"groups":null,"extra":null,"nonResourceAttributes":null,"resourceAttributes":{"verb":null,"labelSelector":null,"fieldSelector":{"rawSelector":null,"requirements":null}}}`)},
		{"parts are null", spec(`{"groups":[null],"extra":{"a":null},"resourceAttributes":{"labelSelector":{"requirements":[null,{"key":null,"values":null}]}}}`)},
		{"many of everything", spec(`{"groups":[` + many + `"x"],"extra":{"a":[` + many + `"x"]},"resourceAttributes":{"labelSelector":{"requirements":[` + strings.Repeat(`{"key":"a","operator":"In","values":["b","c"]},`, 30) + `{}]}}}`)},
		{"a body as large as may be", small + strings.Repeat(" ", 1<<20-len(small))},
		{"white space everywhere", " \r\n\t" + strings.ReplaceAll(small, ":", " :\n") + "\n"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			if got := answer(t, "v1", post(authorization.Authorize(always(usher.Allowed()), quiet()), row.body)); !got.Allowed {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A review in which the version comes last is the same review.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ version, want string }{{"v1", "one"}, {"v1beta1", "other"}} {
		body := `{"spec":{"nonResourceAttributes":{},"groups":["one"],"group":["other"]},"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/` + row.version + `"}`
		r, version, err := authorization.Decode([]byte(body))
		if err != nil || !strings.HasSuffix(version, row.version) || len(r.User.Groups) != 1 || r.User.Groups[0] != row.want {
			t.Errorf("%s: got %v in %s, %v", row.version, r.User.Groups, version, err)
		}
	}
}

// The decision must be there before the caller's timeout, and never takes longer than the door
// allows.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, query string
		limit         time.Duration
		longest       time.Duration
	}{
		{"nothing is said", "", 0, 500 * time.Millisecond},
		{"more than the door allows", "timeout=30s", 0, 500 * time.Millisecond},
		{"less", "timeout=200ms", 0, 180 * time.Millisecond},
		{"less, and something else", "a=b&timeout=200ms", 0, 180 * time.Millisecond},
		{"with escapes", "timeout=2%30s", 0, 500 * time.Millisecond},
		{"nonsense", "timeout=abc", 0, 500 * time.Millisecond},
		{"broken", "timeout=%zz", 0, 500 * time.Millisecond},
		{"negative", "timeout=-1s", 0, 500 * time.Millisecond},
		{"a patient door", "timeout=10s", time.Minute, 10*time.Second - 100*time.Millisecond},
	} {
		var left time.Duration
		decider := usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return usher.Allowed(), nil
		})
		options := quiet()
		options.Timeout = row.limit
		r := httptest.NewRequest(http.MethodPost, "/authorize", strings.NewReader(small))
		r.URL.RawQuery = row.query
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		w := httptest.NewRecorder()
		authorization.Authorize(decider, options).ServeHTTP(w, r)
		if w.Code != http.StatusOK || left > row.longest || left < row.longest-5*time.Second {
			t.Errorf("%s: %d, %s left, want up to %s", row.reason, w.Code, left, row.longest)
		}
	}
}

// One door that has too much to do turns reviews away, and leaves the others in peace.
func TestOverload(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		entered <- struct{}{}
		<-release
		return usher.Allowed(), nil
	})
	options := quiet()
	options.MaxInFlight = 2
	allow, deny := authorization.Allow(decider, options), authorization.Deny(decider, options)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { answer(t, "v1", post(allow, small)) })
		<-entered
	}
	if w := post(allow, small); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "" {
		t.Errorf("one too many: got %d %s, %v", w.Code, w.Body, w.Header())
	}
	all.Go(func() { answer(t, "v1", post(deny, small)) })
	<-entered
	close(release)
	all.Wait()
	go func() {
		for range entered {
		}
	}()
	if got := answer(t, "v1", post(allow, small)); !got.Allowed {
		t.Errorf("afterwards: got %+v", got)
	}
	close(entered)

	shadowed := options
	shadowed.Shadow, shadowed.MaxInFlight = true, 1
	inside := make(chan struct{})
	again := make(chan struct{})
	shadow := authorization.Deny(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		close(inside)
		<-again
		return usher.Allowed(), nil
	}), shadowed)
	all.Go(func() { answer(t, "v1", post(shadow, small)) })
	<-inside
	if w := post(shadow, small); w.Code != http.StatusOK || w.Body.String() != `{"status":{"allowed":false}}`+"\n" {
		t.Errorf("one too many for a shadow: got %d %s", w.Code, w.Body)
	}
	close(again)
	all.Wait()
}

// A caller that breaks off in the middle does no harm.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/authorize", io.MultiReader(strings.NewReader(small[:20]), broken{}))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	authorization.Authorize(always(usher.Allowed()), quiet()).ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "read body") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Requests at the same time do not mix, though their rooms are used again and again.
// TestTextsOfOthers: what policies say of a request does not control the terminal of who reads it.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	said := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Deny, Message: printabletest.Hostile}, nil
	})
	got := answer(t, "v1", post(authorization.Authorize(said, quiet()), spec(`{"user":"jane","nonResourceAttributes":{}}`)))
	if bad := printabletest.Controls(got.Reason); len(bad) > 0 || !strings.Contains(got.Reason, "yes") {
		t.Errorf("%q has %q", got.Reason, bad)
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	echo := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Allow, Message: r.User.Name + strings.Join(r.User.Groups, "")}, nil
	})
	h := authorization.Authorize(echo, quiet())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := strings.Repeat(string(rune('a'+i)), 10*(i+1))
			body := spec(`{"user":"` + name + `","groups":["` + name + `"],"nonResourceAttributes":{}}`)
			for range 200 {
				if got := answer(t, "v1", post(h, body)); got.Reason != name+name {
					t.Errorf("%s got %s", name, got.Reason)
					return
				}
			}
		})
	}
	all.Wait()
}
