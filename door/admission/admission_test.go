package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	webhook "k8s.io/apiserver/pkg/admission/plugin/webhook/request"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
)

// quiet are options that do not log into the output of the tests.
func quiet() admission.Options {
	return admission.Options{Log: slog.New(slog.DiscardHandler)}
}

func always(d usher.Decision) usher.Decider {
	return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, nil })
}

// handlers are the handlers in front of a decider, by phase.
func handlers(d usher.Decider, o admission.Options) map[usher.Phase]http.Handler {
	return map[usher.Phase]http.Handler{usher.Mutate: admission.Mutate(d, o), usher.Validate: admission.Validate(d, o)}
}

// post posts a body as an API server does.
func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/?timeout=10s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// verify checks an answer as an API server of Kubernetes does, and more strictly.
func verify(t *testing.T, phase usher.Phase, body, answer []byte) *webhook.AdmissionResponse {
	t.Helper()
	// Field names are case-sensitive, which encoding/json heeds for maps only.
	var asked map[string]any
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	uid := types.UID(asked["request"].(map[string]any)["uid"].(string))
	var review runtime.Object = &admissionv1.AdmissionReview{}
	if asked["apiVersion"] == "admission.k8s.io/v1beta1" {
		review = &admissionv1beta1.AdmissionReview{}
	}
	if err := json.Unmarshal(answer, review); err != nil {
		t.Fatalf("answer is no JSON: %v\n%s", err, answer)
	}
	response, err := webhook.VerifyAdmissionResponse(uid, phase == usher.Mutate, review)
	if err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	// What is demanded of v1 only, of v1beta1 too.
	var strict admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &strict); err != nil {
		t.Fatal(err)
	}
	if version := strict.APIVersion; version != asked["apiVersion"] {
		t.Errorf("answered in %v, asked in %v", version, asked["apiVersion"])
	}
	strict.APIVersion = "admission.k8s.io/v1"
	if _, err := webhook.VerifyAdmissionResponse(uid, phase == usher.Mutate, &strict); err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	return response
}

// reviews are captured from kube-apiserver; those of v1 are there as v1beta1 too.
func reviews(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/reviews/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		all[name] = body
		if old := bytes.Replace(body, []byte(`"admission.k8s.io/v1"`), []byte(`"admission.k8s.io/v1beta1"`), 1); !bytes.Equal(old, body) {
			all["as-v1beta1-"+name] = old
		}
	}
	return all
}

func TestEveryReviewIsAnswered(t *testing.T) {
	t.Parallel()
	patch := usher.Patch{{Op: "add", Path: "/metadata/annotations", Value: map[string]any{"a": "b"}}}
	tests := []struct {
		reason  string
		decider usher.Decider
		allowed bool
		code    int32
		message string
		patched bool
	}{
		{"allow", always(usher.Allowed()), true, 200, "", false},
		{"no opinion", always(usher.Decision{}), true, 200, "", false},
		{"deny", always(usher.Denied("no")), false, 0, "no", false},
		{"deny with a patch", always(usher.Decision{Verdict: usher.Deny, Code: 403, Patch: patch}), false, 403, "", false},
		{"patch", always(usher.Patched(patch...)), true, 200, "", true},
		{"empty patch", always(usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{}}), true, 200, "", false},
		{"warn", always(usher.Decision{Verdict: usher.Allow, Warnings: []string{"careful"}}), true, 200, "", false},
		{"no JSON", always(usher.Patched(usher.PatchOp{Op: "add", Path: "/a", Value: func() {}})), true, 200, "", false},
		{
			"error", usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
				return usher.Allowed(), errors.New("broken")
			}), false, 500, "no decision was reached: broken", false,
		},
		{
			"panic", usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
				var none []any
				none[len(r.UID)] = r
				return usher.Allowed(), nil
			}), false, 500, "no decision was reached: the decider panicked", false,
		},
	}
	all := reviews(t)
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			for phase, handler := range handlers(test.decider, quiet()) {
				for name, body := range all {
					w := post(handler, body)
					if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
						t.Fatalf("%s %s: status %d, %v: %s", phase, name, w.Code, w.Header(), w.Body)
					}
					got := verify(t, phase, body, w.Body.Bytes())
					changes := phase == usher.Mutate && !strings.Contains(name, "-delete-")
					allowed, code, message := test.allowed, test.code, test.message
					if test.reason == "no JSON" && changes {
						allowed, code, message = false, 500, "no decision was reached: encode patch: encode /a: json: unsupported type: func()"
					}
					if got.Allowed != allowed || got.Result.Code != code || got.Result.Message != message {
						t.Errorf("%s %s: allowed %v, %d %s", phase, name, got.Allowed, got.Result.Code, got.Result.Message)
					}
					if patched := len(got.Patch) > 0; patched != (test.patched && changes) {
						t.Errorf("%s %s: patch %s", phase, name, got.Patch)
					}
					if len(got.Patch) > 0 {
						if _, err := jsonpatch.DecodePatch(got.Patch); err != nil {
							t.Errorf("%s %s: patch %s: %v", phase, name, got.Patch, err)
						}
					}
				}
			}
		})
	}
}

// What the decider sees is what the types of Kubernetes hold.
func TestRequestIsThatOfTheReview(t *testing.T) {
	t.Parallel()
	for name, body := range reviews(t) {
		var seen *usher.Request
		decider := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			seen = r
			return usher.Allowed(), nil
		})
		post(admission.Validate(decider, quiet()), body)
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		q := review.Request
		want := &usher.Request{
			UID: string(q.UID), Phase: usher.Validate, Operation: usher.Operation(q.Operation),
			Kind: schema.GroupVersionKind(q.Kind), Resource: schema.GroupVersionResource(q.Resource), Subresource: q.SubResource,
			Name: q.Name, Namespace: q.Namespace, DryRun: q.DryRun != nil && *q.DryRun,
			User:      usher.User{Name: q.UserInfo.Username, UID: q.UserInfo.UID, Groups: q.UserInfo.Groups},
			Object:    usher.RawObject(q.Object.Raw),
			OldObject: usher.RawObject(q.OldObject.Raw),
			Options:   usher.RawObject(q.Options.Raw),
		}
		for key, values := range q.UserInfo.Extra {
			if want.User.Extra == nil {
				want.User.Extra = map[string][]string{}
			}
			want.User.Extra[key] = values
		}
		raw := cmp.Transformer("raw", func(o *usher.Object) string {
			raw, _ := o.Raw()
			return string(raw)
		})
		if diff := cmp.Diff(want, seen, raw); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	var body bytes.Buffer
	if err := json.Compact(&body, reviews(b)["v1-create-deployments.json"]); err != nil {
		b.Fatal(err)
	}
	for body.Len() < 7000 {
		// An annotation makes it as large as the review of an ordinary pod.
		padded := bytes.Replace(body.Bytes(), []byte(`"annotations":{`), []byte(`"annotations":{"padding-`+strings.Repeat("x", body.Len()%97)+`":"`+strings.Repeat("y ", 200)+`",`), 1)
		body.Reset()
		body.Write(padded)
	}
	handler := admission.Mutate(always(usher.Allowed()), quiet())
	reader := bytes.NewReader(body.Bytes())
	r := httptest.NewRequest(http.MethodPost, "/mutate?timeout=10s", nil)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(body.Len())
	b.SetBytes(r.ContentLength)
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body.Bytes())
		r.Body = io.NopCloser(reader)
		w := discard{header: http.Header{}}
		handler.ServeHTTP(&w, r)
		if w.code >= 400 {
			b.Fatal(w.code)
		}
	}
}

// discard is a response that nobody reads.
type discard struct {
	header http.Header
	code   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }
