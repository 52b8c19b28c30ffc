package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/jsonscan"
)

// small is a review with nothing but what it needs; %s goes before the end of the request.
const small = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1","kind":{"group":"","version":"v1","kind":"Pod"},` +
	`"resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","object":{"kind":"Pod"}%s}}`

// without is the small review after a replacement, which must replace something.
func without(t *testing.T, old, with string) string {
	t.Helper()
	review := fmt.Sprintf(small, "")
	changed := strings.Replace(review, old, with, 1)
	if changed == review {
		t.Fatalf("%s is not in %s", old, review)
	}
	return changed
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	t.Parallel()
	review := fmt.Sprintf(small, "")
	tests := []struct {
		reason string
		method string
		header map[string]string
		body   string
		code   int
		text   string
	}{
		{reason: "wrong method", method: "GET", body: review, code: 405, text: "method GET is not allowed: send reviews with POST"},
		{reason: "no content type", header: map[string]string{"Content-Type": ""}, body: review, code: 415, text: `Content-Type is "": expected application/json`},
		{reason: "wrong content type", header: map[string]string{"Content-Type": "application/yaml"}, body: review, code: 415, text: `Content-Type is "application/yaml": expected application/json`},
		{reason: "content type that is none", header: map[string]string{"Content-Type": "; ;"}, body: review, code: 415, text: `Content-Type is "; ;": expected application/json`},
		{reason: "compressed", header: map[string]string{"Content-Encoding": "gzip"}, body: "\x1f\x8b", code: 415, text: `Content-Encoding is "gzip": expected a body without encoding`},
		{reason: "empty body", body: "", code: 400, text: "body is empty: expected an AdmissionReview"},
		{reason: "blank body", body: " \n", code: 400, text: "decode AdmissionReview: JSON ends too early, after 2 bytes"},
		{reason: "not JSON", body: "kind: AdmissionReview", code: 400, text: "decode AdmissionReview: JSON is broken at byte 0, 'k': expected a value"},
		{reason: "cut off", body: review[:len(review)-9], code: 400, text: "decode AdmissionReview: JSON ends too early, after 225 bytes"},
		{reason: "broken inside an object", body: without(t, `{"kind":"Pod"}`, `{"a":[1,}`), code: 400, text: "decode AdmissionReview: JSON is broken at byte 226, '}': expected a value"},
		{reason: "broken number", body: without(t, `{"kind":"Pod"}`, `{"a":01}`), code: 400, text: "decode AdmissionReview: JSON is broken at byte 224, '1': expected a comma or the end after a value"},
		{reason: "broken string", body: without(t, `{"kind":"Pod"}`, `{"a":"\x"}`), code: 400, text: `decode AdmissionReview: JSON is broken at byte 224, '\\': an escape is not valid`},
		{reason: "line end in a string", body: without(t, `{"kind":"Pod"}`, "{\"a\":\"\n\"}"), code: 400, text: `decode AdmissionReview: JSON is broken at byte 224, '\n': a control character stands in a string`},
		{reason: "brackets that do not fit", body: without(t, `{"kind":"Pod"}`, `{"a":[}]`), code: 400, text: "decode AdmissionReview: JSON is broken at byte 224, '}': expected a value"},
		{reason: "key without quotes", body: without(t, `{"kind":"Pod"}`, `{a:1}`), code: 400, text: "decode AdmissionReview: JSON is broken at byte 219, 'a': expected a key"},
		{reason: "key without colon", body: without(t, `{"kind":"Pod"}`, `{"a" 1}`), code: 400, text: "decode AdmissionReview: JSON is broken at byte 223, '1': expected a colon after a key"},
		{reason: "more after the end", body: review + "{}", code: 400, text: "decode AdmissionReview: JSON is broken at byte 234, '{': unexpected data after the value"},
		{reason: "an array", body: "[]", code: 400, text: "decode AdmissionReview: body is an array: expected an object"},
		{reason: "another kind", body: `{"kind":"Pod","apiVersion":"v1"}`, code: 400, text: `kind is "Pod": expected AdmissionReview`},
		{reason: "no kind", body: `{}`, code: 400, text: `kind is "": expected AdmissionReview`},
		{reason: "unknown version", body: without(t, "k8s.io/v1", "k8s.io/v2"), code: 400, text: `apiVersion is "admission.k8s.io/v2": expected admission.k8s.io/v1 or admission.k8s.io/v1beta1`},
		{reason: "long version", body: without(t, "k8s.io/v1", strings.Repeat("é", 100)), code: 400, text: `apiVersion is "admission.` + strings.Repeat("é", 27) + `…": expected admission.k8s.io/v1 or admission.k8s.io/v1beta1`},
		{reason: "no request", body: without(t, `"request"`, `"response"`), code: 400, text: "request is missing"},
		{reason: "request is null", body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, code: 400, text: "request is missing"},
		{reason: "request is text", body: `{"request":"x"}`, code: 400, text: "decode AdmissionReview: request is a string: expected an object"},
		{reason: "no uid", body: without(t, `"uid":"u1",`, ``), code: 400, text: "request.uid is missing"},
		{reason: "uid is null", body: without(t, `"u1"`, `null`), code: 400, text: "request.uid is missing"},
		{reason: "uid is a number", body: without(t, `"u1"`, `1`), code: 400, text: "decode AdmissionReview: request.uid is a number: expected a string"},
		{reason: "endless uid", body: without(t, "u1", strings.Repeat("u", 257)), code: 400, text: "request.uid is longer than 256 bytes"},
		{reason: "uid twice", body: without(t, `"uid":"u1"`, `"uid":"u1","u\u0069d":"u2"`), code: 400, text: "decode AdmissionReview: request.uid is there twice"},
		{reason: "kind twice", body: without(t, `"kind":"Pod"}`, `"kind":"Pod","kind":"Node"}`), code: 400, text: "decode AdmissionReview: request.kind.kind is there twice"},
		{reason: "no kind of object", body: without(t, `"kind":{"group":"","version":"v1","kind":"Pod"},`, ``), code: 400, text: "request.kind is missing"},
		{reason: "no resource", body: without(t, `"resource":"pods"`, `"resource":null`), code: 400, text: "request.resource is missing"},
		{reason: "unknown operation", body: without(t, "CREATE", "PATCH"), code: 400, text: `request.operation is "PATCH": expected one of ["CREATE" "UPDATE" "DELETE" "CONNECT"]`},
		{reason: "no operation", body: without(t, `"operation":"CREATE",`, ``), code: 400, text: `request.operation is "": expected one of ["CREATE" "UPDATE" "DELETE" "CONNECT"]`},
		{reason: "no object on CREATE", body: without(t, `{"kind":"Pod"}`, `null`), code: 400, text: "request.object is missing: CREATE has one"},
		{reason: "no object on UPDATE", body: strings.Replace(without(t, `"object"`, `"oldObject"`), "CREATE", "UPDATE", 1), code: 400, text: "request.object is missing: UPDATE has one"},
		{reason: "no old object on UPDATE", body: without(t, "CREATE", "UPDATE"), code: 400, text: "request.oldObject is missing: UPDATE has one"},
		{reason: "no old object on DELETE", body: without(t, "CREATE", "DELETE"), code: 400, text: "request.oldObject is missing: DELETE has one"},
		{reason: "object is a list", body: without(t, `{"kind":"Pod"}`, `[1]`), code: 400, text: "decode AdmissionReview: request.object is an array: expected an object"},
		{reason: "groups are text", body: fmt.Sprintf(small, `,"userInfo":{"groups":"devs"}`), code: 400, text: "decode AdmissionReview: request.userInfo.groups is a string: expected an array"},
		{reason: "a group is a number", body: fmt.Sprintf(small, `,"userInfo":{"groups":[true]}`), code: 400, text: "decode AdmissionReview: request.userInfo.groups is a boolean: expected a string"},
		{reason: "extra that comes twice", body: fmt.Sprintf(small, `,"userInfo":{"extra":{"a":["b"],"a":[]}}`), code: 400, text: "decode AdmissionReview: request.userInfo.extra.a is there twice"},
		{reason: "dry run is text", body: fmt.Sprintf(small, `,"dryRun":"yes"`), code: 400, text: "decode AdmissionReview: request.dryRun is a string: expected a boolean"},
		{reason: "too deep before it is known who asks", body: strings.Repeat(`{"a":`, 100000), code: 400, text: "decode AdmissionReview: values are nested more than 1000 levels deep"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			called := false
			decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
				called = true
				return usher.Allowed(), nil
			})
			method := test.method
			if method == "" {
				method = http.MethodPost
			}
			r := httptest.NewRequest(method, "/mutate", strings.NewReader(test.body))
			r.Header.Set("Content-Type", "application/json")
			for key, value := range test.header {
				r.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			admission.Mutate(decider, quiet()).ServeHTTP(w, r)
			if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != test.code || got != test.text {
				t.Errorf("got %d %s\nwant %d %s", w.Code, got, test.code, test.text)
			}
			if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type is %q", got)
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (test.code == 405) {
				t.Errorf("Allow is %q", allow)
			}
			if called {
				t.Error("the decider was asked")
			}
		})
	}
}

func TestUnusualReviewsAreDecided(t *testing.T) {
	t.Parallel()
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":["v"]`, i)
	}
	tests := []struct {
		reason string
		header string
		body   string
	}{
		{"a content type with a character set", "application/json; charset=utf-8", fmt.Sprintf(small, "")},
		{"fields of later versions", "application/json", fmt.Sprintf(small, `,"future":{"a":[1,-2.5e+3,true,null,"\ud83d\ude00"]}`)},
		{"absent values are null", "application/json", fmt.Sprintf(small, `,"userInfo":null,"dryRun":null,"name":null,"options":null,"oldObject":null,"requestKind":null`)},
		{"absent parts of values are null", "application/json", fmt.Sprintf(small, `,"userInfo":{"groups":null,"extra":null,"uid":null}`)},
		{"many extra keys", "application/json", fmt.Sprintf(small, `,"userInfo":{"extra":{`+strings.Join(many, ",")+`}}`)},
		{"white space everywhere", "application/json", " \r\n\t" + strings.ReplaceAll(fmt.Sprintf(small, ""), `:`, " :\n") + "\n"},
		{"another order", "application/json", `{"request":{"object":{},"operation":"CREATE","resource":{"resource":"pods"},"kind":{"kind":"Pod"},"uid":"u1"},"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`},
		{"an object that is nested as deep as may be", "application/json", fmt.Sprintf(small, `,"oldObject":{"a":`+strings.Repeat("[", jsonscan.MaxDepth-3)+strings.Repeat("]", jsonscan.MaxDepth-3)+`}`)},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(test.body))
			r.Header.Set("Content-Type", test.header)
			w := httptest.NewRecorder()
			admission.Validate(always(usher.Allowed()), quiet()).ServeHTTP(w, r)
			if w.Code != http.StatusOK || !verify(t, usher.Validate, []byte(test.body), w.Body.Bytes()).Allowed {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestTooDeepIsDenied(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{jsonscan.MaxDepth - 2, 5_000_000} {
		body := []byte(fmt.Sprintf(small, `,"oldObject":{"a":`+strings.Repeat("[", levels)+strings.Repeat("]", levels)+`}`))
		start := time.Now()
		w := post(admission.Mutate(always(usher.Allowed()), quiet()), body)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%d levels took %s", levels, took)
		}
		var answer struct {
			Response struct {
				UID     string
				Allowed bool
				Status  struct {
					Code    int
					Message string
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
		}
		got := answer.Response
		if got.UID != "u1" || got.Allowed || got.Status.Code != 400 || !strings.Contains(got.Status.Message, "nested more than 1000 levels deep") {
			t.Errorf("%d levels: got %s", levels, w.Body)
		}
	}
}

func TestTooLargeIsDenied(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	body := []byte(fmt.Sprintf(small, `,"oldObject":{"a":"`+strings.Repeat("x", 3*limit)+`"}`))
	garbage := bytes.Repeat([]byte("x"), 3*limit)
	exact := []byte(fmt.Sprintf(small, ""))
	exact = append(exact, bytes.Repeat([]byte(" "), limit-len(exact))...)
	options := quiet()
	options.MaxBody = limit
	server := httptest.NewUnstartedServer(admission.Mutate(always(usher.Allowed()), options))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	tests := []struct {
		reason string
		body   io.Reader
		sent   []byte
		status int
		code   int32
	}{
		{"the length is said", bytes.NewReader(body), body, 200, 413},
		{"the length is not said", io.MultiReader(bytes.NewReader(body)), body, 200, 413},
		{"old versions are answered in theirs", bytes.NewReader(bytes.Replace(body, []byte("io/v1"), []byte("io/v1beta1"), 1)), bytes.Replace(body, []byte("io/v1"), []byte("io/v1beta1"), 1), 200, 413},
		{"it is not said who asks", bytes.NewReader(garbage), nil, 413, 0},
		{"just not too large", bytes.NewReader(exact), exact, 200, 200},
		{"just not too large, the length is not said", io.MultiReader(bytes.NewReader(exact)), exact, 200, 200},
		{"just too large", bytes.NewReader(append(exact, ' ')), exact, 200, 413},
		{"just too large, the length is not said", io.MultiReader(bytes.NewReader(append(exact, ' '))), exact, 200, 413},
	}
	for _, test := range tests {
		response, err := server.Client().Post(server.URL, "application/json", test.body)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != test.status {
			t.Errorf("%s: %d, %v: %s", test.reason, response.StatusCode, err, answer)
			continue
		}
		if test.sent == nil {
			if got := string(answer); got != "body is larger than 102400 bytes\n" {
				t.Errorf("%s: %s", test.reason, got)
			}
			continue
		}
		got := verify(t, usher.Mutate, test.sent, answer)
		if got.Result.Code != test.code || got.Allowed != (test.code == 200) {
			t.Errorf("%s: %s", test.reason, answer)
		}
		if !got.Allowed && got.Result.Message != "admission review is larger than 102400 bytes" {
			t.Errorf("%s: %s", test.reason, got.Result.Message)
		}
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	admission.Mutate(always(usher.Allowed()), quiet()).ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusBadRequest || got != "read body: unexpected EOF\n" {
		t.Errorf("got %d %s", w.Code, got)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		query   string
		timeout time.Duration
		want    time.Duration
	}{
		{"the caller says, and gets the answer a little earlier", "?timeout=2s", 0, 1800 * time.Millisecond},
		{"the reserve is bounded", "?timeout=30s", 0, 29500 * time.Millisecond},
		{"what is said goes before the option", "?timeout=2s", time.Second, 1800 * time.Millisecond},
		{"nobody waits for ever", "?timeout=9999h", 0, 59500 * time.Millisecond},
		{"nothing is said", "", 0, 10 * time.Second},
		{"nothing is said, and there is an option", "", 3 * time.Second, 3 * time.Second},
		{"nonsense is not heard", "?timeout=soon", 0, 10 * time.Second},
		{"a number without unit is not heard", "?timeout=2", 0, 10 * time.Second},
		{"no time is not heard", "?timeout=0s", 0, 10 * time.Second},
		{"less than no time is not heard", "?timeout=-1s", 0, 10 * time.Second},
		{"a query that is none is not heard", "?%zz;timeout=2s", 0, 10 * time.Second},
		{"no deadline", "?timeout=2s", -1, 0},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			var got time.Duration
			decider := usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
				if deadline, ok := ctx.Deadline(); ok {
					got = deadline.Sub(start)
				}
				return usher.Allowed(), nil
			})
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(small, "")))
			r.URL.RawQuery = strings.TrimPrefix(test.query, "?")
			r.Header.Set("Content-Type", "application/json")
			options := quiet()
			options.Timeout = test.timeout
			admission.Mutate(decider, options).ServeHTTP(httptest.NewRecorder(), r)
			if late := got - test.want; late < 0 || late > 5*time.Second || test.want == 0 && got != 0 {
				t.Errorf("deadline after %s, want %s", got, test.want)
			}
		})
	}
}

// A decider that takes too long ends in a denial while the caller still listens.
func TestSlowDeciderIsDenied(t *testing.T) {
	t.Parallel()
	decider := usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		<-ctx.Done()
		return usher.Decision{}, ctx.Err()
	})
	r := httptest.NewRequest(http.MethodPost, "/?timeout=50ms", strings.NewReader(fmt.Sprintf(small, "")))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	admission.Validate(decider, quiet()).ServeHTTP(w, r)
	got := verify(t, usher.Validate, []byte(fmt.Sprintf(small, "")), w.Body.Bytes())
	if got.Allowed || got.Result.Message != "no decision was reached: context deadline exceeded" {
		t.Errorf("got %s", w.Body)
	}
}

func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	options := admission.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}
	decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("at the disco") })
	w := post(admission.Mutate(decider, options), []byte(fmt.Sprintf(small, "")))
	if strings.Contains(w.Body.String(), "disco") {
		t.Errorf("the caller is told: %s", w.Body)
	}
	for _, want := range []string{"uid=u1", "at the disco", "TestPanicIsLogged"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q: %s", want, logged.String())
		}
	}
}

// A decider may hang up on its caller, as any handler of net/http may.
func TestAbortIsLeftToTheServer(t *testing.T) {
	t.Parallel()
	defer func() {
		if reason := recover(); reason != http.ErrAbortHandler {
			t.Errorf("recovered %v", reason)
		}
	}()
	decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic(http.ErrAbortHandler) })
	w := post(admission.Mutate(decider, quiet()), []byte(fmt.Sprintf(small, "")))
	t.Errorf("answered %s", w.Body)
}
