package conversion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/door/conversion"
	"github.com/usher-dev/usher/internal/printable/printabletest"
)

const (
	v1      = "apiextensions.k8s.io/v1"
	v1beta1 = "apiextensions.k8s.io/v1beta1"
	target  = "stable.example.com/v2"
)

func quiet() conversion.Options { return conversion.Options{Log: slog.New(slog.DiscardHandler)} }

// reviewOf is the review that an API server sends for some objects, in JSON.
func reviewOf(version string, objects ...string) []byte {
	return []byte(fmt.Sprintf(`{"kind":"ConversionReview","apiVersion":%q,"request":{"uid":"u1","desiredAPIVersion":%q,"objects":[%s]}}`,
		version, target, strings.Join(objects, ",")))
}

// object is an object of the custom resource in its old version.
func object(name, fields string) string {
	return fmt.Sprintf(`{"apiVersion":"stable.example.com/v1","kind":"Crontab","metadata":{"name":%q,"namespace":"shop","uid":"7"}%s}`, name, fields)
}

func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/crdconvert?timeout=30s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// verify checks an answer as an API server does (webhook_converter.go), and also for v1beta1,
// and returns what it would go on with.
func verify(t *testing.T, asked, answer []byte) ([]unstructured.Unstructured, metav1.Status) {
	t.Helper()
	var question, reply apiextensionsv1.ConversionReview
	// Case-sensitive, as an API server is.
	if err := kjson.Unmarshal(asked, &question); err != nil {
		t.Fatal(err)
	}
	if err := kjson.Unmarshal(answer, &reply); err != nil {
		t.Fatalf("answer is no review: %v: %s", err, answer)
	}
	if reply.Response == nil || reply.Request != nil || reply.TypeMeta != question.TypeMeta || reply.Response.UID != question.Request.UID {
		t.Fatalf("answer does not belong to the question: %s", answer)
	}
	if err := kjson.Unmarshal(answer, &apiextensionsv1beta1.ConversionReview{}); err != nil {
		t.Errorf("answer is no review of v1beta1: %v", err)
	}
	result := reply.Response.Result
	if result.Status != metav1.StatusSuccess {
		if result.Message == "" || len(reply.Response.ConvertedObjects) > 0 {
			t.Errorf("a failure without a reason, or with objects: %s", answer)
		}
		return nil, result
	}
	if got, want := len(reply.Response.ConvertedObjects), len(question.Request.Objects); got != want {
		t.Fatalf("%d objects for %d", got, want)
	}
	var converted []unstructured.Unstructured
	for i, raw := range reply.Response.ConvertedObjects {
		var before, after unstructured.Unstructured
		if err := errors.Join(before.UnmarshalJSON(question.Request.Objects[i].Raw), after.UnmarshalJSON(raw.Raw)); err != nil {
			t.Fatal(err)
		}
		if _, ok := after.Object["metadata"].(map[string]any); !ok || after.GetAPIVersion() != question.Request.DesiredAPIVersion ||
			after.GetKind() != before.GetKind() || after.GetName() != before.GetName() ||
			after.GetNamespace() != before.GetNamespace() || after.GetUID() != before.GetUID() {
			t.Errorf("objects[%d] is another one: %s, %s", i, question.Request.Objects[i].Raw, raw.Raw)
		}
		converted = append(converted, after)
	}
	return converted, result
}

func set(field string, value any) conversion.Converter {
	return conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, _ string) error {
		o.Object[field] = value
		return nil
	})
}

func TestObjectsAreConverted(t *testing.T) {
	t.Parallel()
	var seen []string
	converter := conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, to string) error {
		seen = append(seen, o.GetAPIVersion()+" "+o.GetName()+" to "+to)
		o.SetAnnotations(map[string]string{"old": fmt.Sprint(o.Object["spec"])})
		o.Object["spec"] = o.GetName()
		return nil
	})
	handler := conversion.Handler(converter, quiet())
	for _, version := range []string{v1, v1beta1} {
		seen = nil
		body := reviewOf(version, object("a", `,"n":9007199254740993,"f":0.25`), object("b", `,"spec":7`))
		w := post(handler, body)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
		}
		converted, result := verify(t, body, w.Body.Bytes())
		if diff := cmp.Diff(metav1.Status{Status: "Success"}, result); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		want := []string{"stable.example.com/v1 a to " + target, "stable.example.com/v1 b to " + target}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		first := map[string]any{
			"apiVersion": target, "kind": "Crontab", "spec": "a", "n": int64(9007199254740993), "f": 0.25,
			"metadata": map[string]any{"name": "a", "namespace": "shop", "uid": "7", "annotations": map[string]any{"old": "<nil>"}},
		}
		if diff := cmp.Diff(first, converted[0].Object); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got := converted[1].Object["spec"]; got != "b" {
			t.Errorf("the second has spec %v", got)
		}
	}
	body := reviewOf(v1)
	if converted, result := verify(t, body, post(handler, body).Body.Bytes()); len(converted) != 0 || result.Status != "Success" {
		t.Errorf("no objects: %v %v", converted, result)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason    string
		converter conversion.Converter
		object    string
		want      string
	}{
		{
			"the converter says why", conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error {
				return errors.New("invalid hostPort value `h`")
			}), object("a", ""), "Crontab shop/a: invalid hostPort value `h`",
		},
		{
			"the converter panics", conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, _ string) error {
				_ = o.Object["spec"].(map[string]any)["secret"]
				return nil
			}), object("a", ""), "Crontab shop/a: the converter panicked",
		},
		{
			"nothing is left", conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, _ string) error {
				o.Object = nil
				return nil
			}), object("a", ""), "Crontab shop/a: the converter has spoilt the object: metadata is missing",
		},
		{"the metadata is gone", set("metadata", nil), object("a", ""), "Crontab shop/a: the converter has spoilt the object: metadata is missing"},
		{
			"the name has changed", set("metadata", map[string]any{"name": "b", "namespace": "shop", "uid": "7"}), object("a", ""),
			"Crontab shop/a: the converter has made it Crontab shop/b: the kind, name, namespace and uid of an object have to stay",
		},
		{
			"the uid has changed", set("metadata", map[string]any{"name": "a", "namespace": "shop"}), object("a", ""),
			"Crontab shop/a: the converter has made it Crontab shop/a: the kind, name, namespace and uid of an object have to stay",
		},
		{
			"the kind has changed", set("kind", "Pod"), object("a", ""),
			"Crontab shop/a: the converter has made it Pod shop/a: the kind, name, namespace and uid of an object have to stay",
		},
		{"no JSON", set("spec", math.NaN()), object("a", ""), "Crontab shop/a: encode object: json: unsupported value: NaN"},
		{"an object without kind", set("a", "b"), `{"metadata":{}}`, "objects[1]: decode object: Object 'Kind' is missing in '{\"metadata\":{}}'"},
		{"an object without metadata", set("a", "b"), `{"apiVersion":"stable.example.com/v1","kind":"Crontab"}`, "objects[1]: metadata is missing"},
		{"an object that is none", set("a", "b"), `[1]`, "objects[1]: decode object: json: cannot unmarshal array into Go value of type map[string]interface {}"},
	}
	for _, test := range tests {
		// The first object is fine, unless the converter spoils it, too.
		first := object("a", "")
		body := reviewOf(v1, first, test.object)
		w := post(conversion.Handler(test.converter, quiet()), body)
		_, result := verify(t, body, w.Body.Bytes())
		if result.Status != "Failure" || !strings.HasPrefix(result.Message, test.want) {
			t.Errorf("%s: got %s %q, want %q", test.reason, result.Status, result.Message, test.want)
		}
	}
}

func TestReasonIsBounded(t *testing.T) {
	t.Parallel()
	converter := conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error {
		return errors.New(strings.Repeat("é", 1<<20) + "\xff")
	})
	body := reviewOf(v1, object("a", ""))
	_, result := verify(t, body, post(conversion.Handler(converter, quiet()), body).Body.Bytes())
	if n := len(result.Message); n > 16<<10+10 || n < 15<<10 || !strings.HasSuffix(result.Message, "…") {
		t.Errorf("the reason has %d bytes", n)
	}
}

// TestTextsOfOthers: what a converter says of an object does not control the terminal of who reads it.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	converter := conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error {
		return errors.New(printabletest.Hostile)
	})
	body := reviewOf(v1, object("a", ""))
	_, result := verify(t, body, post(conversion.Handler(converter, quiet()), body).Body.Bytes())
	if bad := printabletest.Controls(result.Message); len(bad) > 0 || !strings.Contains(result.Message, "yes") {
		t.Errorf("%q has %q", result.Message, bad)
	}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	t.Parallel()
	review := string(reviewOf(v1, object("a", "")))
	change := func(old, replacement string) string {
		changed := strings.Replace(review, old, replacement, 1)
		if changed == review {
			t.Fatalf("%s is not in %s", old, review)
		}
		return changed
	}
	tests := []struct {
		reason string
		method string
		header map[string]string
		body   string
		code   int
		text   string
	}{
		{reason: "wrong method", method: "GET", body: review, code: 405, text: "method GET is not allowed: send reviews with POST"},
		{reason: "YAML", header: map[string]string{"Content-Type": "application/yaml"}, body: "kind: ConversionReview", code: 415, text: `Content-Type is "application/yaml": expected application/json`},
		{reason: "compressed", header: map[string]string{"Content-Encoding": "gzip"}, body: review, code: 415, text: `Content-Encoding is "gzip": expected a body without encoding`},
		{reason: "too large", body: change(`"metadata"`, `"padding":"`+strings.Repeat("x", 4096)+`","metadata"`), code: 413, text: "body is larger than 4096 bytes"},
		{reason: "empty", body: "", code: 400, text: "body is empty: expected a ConversionReview"},
		{reason: "YAML that is said to be JSON", body: "kind: ConversionReview", code: 400, text: "decode ConversionReview: invalid character 'k' looking for beginning of value"},
		{reason: "more after the end", body: review + "{}", code: 400, text: "decode ConversionReview: invalid character '{' after top-level value"},
		{reason: "another kind", body: change("ConversionReview", "AdmissionReview"), code: 400, text: `kind is "AdmissionReview": expected ConversionReview`},
		{reason: "another version", body: change("k8s.io/v1", "k8s.io/v2"), code: 400, text: `apiVersion is "apiextensions.k8s.io/v2": expected apiextensions.k8s.io/v1 or apiextensions.k8s.io/v1beta1`},
		{reason: "no request", body: change(`"request"`, `"response"`), code: 400, text: "request is missing"},
		{reason: "no uid", body: change(`"u1"`, `""`), code: 400, text: "request.uid is missing"},
		{reason: "endless uid", body: change(`u1`, strings.Repeat("u", 257)), code: 400, text: "request.uid is longer than 256 bytes"},
		{reason: "uid twice", body: change(`"uid":"u1"`, `"uid":"u1","uid":"u2"`), code: 400, text: `decode ConversionReview: duplicate field "request.uid"`},
		{reason: "no target", body: change(target, ""), code: 400, text: `request.desiredAPIVersion is "": expected a group and a version`},
		{reason: "a target without group", body: change(target, "v2"), code: 400, text: `request.desiredAPIVersion is "v2": expected a group and a version`},
		{reason: "a target that is none", body: change(target, "a/b/c"), code: 400, text: `request.desiredAPIVersion is "a/b/c": expected a group and a version`},
	}
	options := quiet()
	options.MaxBody = 4096
	handler := conversion.Handler(set("a", "b"), options)
	for _, test := range tests {
		method := test.method
		if method == "" {
			method = http.MethodPost
		}
		r := httptest.NewRequest(method, "/", strings.NewReader(test.body))
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		for key, value := range test.header {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != test.code || got != test.text {
			t.Errorf("%s: got %d %s, want %d %s", test.reason, w.Code, got, test.code, test.text)
		}
		if (w.Header().Get("Allow") == "POST") != (test.code == 405) {
			t.Errorf("%s: Allow is %q", test.reason, w.Header().Get("Allow"))
		}
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	conversion.Handler(set("a", "b"), quiet()).ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusBadRequest || got != "read body: unexpected EOF\n" {
		t.Errorf("got %d %s", w.Code, got)
	}
}

// Nobody reads what comes after the caller has hung up.
func TestConversionEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	converter := conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error {
		calls++
		cancel()
		return nil
	})
	body := reviewOf(v1, object("a", ""), object("b", ""))
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	conversion.Handler(converter, quiet()).ServeHTTP(w, r)
	if _, result := verify(t, body, w.Body.Bytes()); calls != 1 || result.Message != "objects[1]: the caller does not wait any more: context canceled" {
		t.Errorf("%d objects were converted: %s", calls, result.Message)
	}
}

func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	options := conversion.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}
	converter := conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error { panic("at the disco") })
	w := post(conversion.Handler(converter, options), reviewOf(v1, object("a", "")))
	if strings.Contains(w.Body.String(), "disco") || !strings.Contains(logged.String(), "at the disco") || !strings.Contains(logged.String(), "TestPanicIsLogged") {
		t.Errorf("answer %s, log %s", w.Body, &logged)
	}
}

// API servers ask again and again.
func TestTheSameFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	options := conversion.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}
	handler := conversion.Handler(conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, _ string) error {
		return fmt.Errorf("%v is not for me", o.Object["spec"])
	}), options)
	for _, spec := range []string{"1", "1", "2", "2", "1"} {
		post(handler, reviewOf(v1, object("a", `,"spec":`+spec)))
	}
	if got := strings.Count(logged.String(), "conversion failed"); got != 3 {
		t.Errorf("%d failures are logged: %s", got, &logged)
	}
}

// Who makes objects chooses their names and what is wrong with them.
func TestFailuresDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		convert conversion.ConverterFunc
	}{
		{"errors", func(context.Context, *unstructured.Unstructured, string) error { return errors.New("it is not for me") }},
		{"panics", func(_ context.Context, o *unstructured.Unstructured, _ string) error { panic(o.GetName()) }},
	} {
		var logged bytes.Buffer
		handler := conversion.Handler(row.convert, conversion.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))})
		for i := range 100 {
			post(handler, reviewOf(v1, object(fmt.Sprint(i, strings.Repeat("x", 100_000)), "")))
		}
		if lines := strings.Count(logged.String(), "\n"); lines == 0 || lines > 30 || logged.Len() > 1<<20 {
			t.Errorf("%s: %d lines of %d bytes are logged", row.reason, lines, logged.Len())
		}
	}
}

// A converter may hang up on its caller, as any handler of net/http may.
func TestAbortIsLeftToTheServer(t *testing.T) {
	t.Parallel()
	defer func() {
		if reason := recover(); reason != http.ErrAbortHandler {
			t.Errorf("recovered %v", reason)
		}
	}()
	converter := conversion.ConverterFunc(func(context.Context, *unstructured.Unstructured, string) error { panic(http.ErrAbortHandler) })
	w := post(conversion.Handler(converter, quiet()), reviewOf(v1, object("a", "")))
	t.Errorf("answered %s", w.Body)
}

// FuzzHandler checks that whatever comes is either refused with a 4xx or answered with a
// review that an API server takes.
func FuzzHandler(f *testing.F) {
	review := reviewOf(v1, object("a", `,"spec":{"a":[1,2.5,null]}`), object("b", ""))
	f.Add(review, "application/json", "spec", []byte(`"x"`))
	f.Add(reviewOf(v1beta1, object("a", "")), "application/json; charset=x", "metadata", []byte(`{"name":"a","namespace":"shop","uid":"7","labels":{"a":"b"}}`))
	f.Add(reviewOf(v1, object("a", "")), "text/json", "kind", []byte(`7`))
	f.Add(reviewOf(v1, `{"apiVersion":"a/b","kind":"C","items":[],"metadata":{"name":7}}`), "application/json", "metadata", []byte(`null`))
	f.Add(bytes.Replace(review, []byte(`"objects"`), []byte(`"Objects"`), 1), "application/json", "apiVersion", []byte(`[]`))
	f.Add([]byte(strings.Repeat(`{"request":`, 20000)), "application/json", "", []byte(``))
	f.Fuzz(func(t *testing.T, body []byte, contentType, field string, value []byte) {
		converter := conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, to string) error {
			var decoded any
			if err := json.Unmarshal(value, &decoded); err != nil {
				return err
			}
			o.Object[field] = decoded
			return nil
		})
		options := quiet()
		options.MaxBody = 64 << 10
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		conversion.Handler(converter, options).ServeHTTP(w, r)
		switch {
		case w.Code >= 400 && w.Code < 500 && w.Body.Len() > 0:
		case w.Code != http.StatusOK:
			t.Errorf("%d %s", w.Code, w.Body)
		default:
			verify(t, body, w.Body.Bytes())
		}
	})
}
