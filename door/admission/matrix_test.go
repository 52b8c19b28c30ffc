package admission_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
)

// What an API server does with every kind of answer, of which there is a list: a kind is
// either one that our door gives (the first test), or one that it never gives, whatever is
// decided (the second). What the API server does is what its own code does here.

const (
	failing  = "500 InternalError: Internal error occurred: failed calling webhook \"n.example.com\": "
	refusing = "admission webhook \"n.example.com\" denied the request"
)

// An outcome is the result of a request under failurePolicy Fail and under Ignore.
type outcome struct{ fail, ignore string }

// both is an outcome that no failurePolicy changes.
func both(what string) outcome { return outcome{what, what} }

// unheard is that of an answer that counts as none.
func unheard(why string) outcome { return outcome{failing + why, "allowed"} }

func (o outcome) check(t *testing.T, u *upstream, c call, operation usher.Operation, webhook http.Handler) {
	t.Helper()
	for policy, want := range map[admissionregistrationv1.FailurePolicyType]string{
		admissionregistrationv1.Fail: o.fail, admissionregistrationv1.Ignore: o.ignore,
	} {
		c.policy = policy
		if got := u.dispatch(t, c, operation, webhook); !strings.HasPrefix(got, want) || strings.HasPrefix(want, "allowed") && got != want {
			t.Errorf("%s %s %s: got %s, want %s", c.version, c.phase, policy, got, want)
		}
	}
}

func TestAnswersOfTheDoor(t *testing.T) {
	t.Parallel()
	image := field.NewPath("spec").Child("image")
	add := func(path string, value any) usher.Decision {
		return usher.Patched(usher.PatchOp{Op: "add", Path: path, Value: value})
	}
	tests := []struct {
		// row is what the list has.
		row       string
		phases    []usher.Phase
		operation usher.Operation
		decision  usher.Decision
		want      outcome
	}{
		{row: "allowed: true", decision: usher.Allowed(), want: both("allowed")},
		{row: "allowed: false, no status", decision: usher.Decision{Verdict: usher.Deny}, want: both("400 : " + refusing + " without explanation")},
		{row: "allowed: false, status.code below 400", decision: usher.Decision{Verdict: usher.Deny, Code: 200}, want: both("400 : " + refusing + " without explanation")},
		{row: "status.message", decision: usher.Denied("no"), want: both("400 : " + refusing + ": no")},
		{row: "status.reason only", decision: usher.Decision{Verdict: usher.Deny, Reason: "because"}, want: both("400 because: " + refusing + ": because")},
		{
			row:      "status.code 418, reason Invalid, details: passed through",
			decision: usher.Decision{Verdict: usher.Deny, Code: 418, Reason: "Invalid", Message: "no", Fields: field.ErrorList{field.Required(image, "")}},
			want:     both("418 Invalid: " + refusing + ": no"),
		},
		{row: "also nonsense such as 999", decision: usher.Decision{Verdict: usher.Deny, Code: 999}, want: both("999 : " + refusing + " without explanation")},
		{row: "M: a patch that applies", phases: []usher.Phase{usher.Mutate}, decision: add("/metadata/labels/a", "b"), want: both("allowed, changed")},
		{row: "M: patch []: no change", phases: []usher.Phase{usher.Mutate}, decision: usher.Patched(), want: both("allowed")},
		{row: "V: a patch is not passed on", phases: []usher.Phase{usher.Validate}, decision: add("/metadata/labels/a", "b"), want: both("allowed")},
		{
			row: "M: add under a missing parent; failurePolicy does not apply", phases: []usher.Phase{usher.Mutate},
			decision: add("/metadata/annotations/a", "b"), want: both("500 InternalError: Internal error occurred: add operation does not apply"),
		},
		{
			row: "M: failing test; failurePolicy does not apply", phases: []usher.Phase{usher.Mutate},
			decision: usher.Patched(usher.PatchOp{Op: "test", Path: "/metadata/name", Value: "x"}),
			want:     both("500 InternalError: Internal error occurred: testing value /metadata/name failed"),
		},
		{
			row: "M: wrong JSON type; failurePolicy does not apply", phases: []usher.Phase{usher.Mutate},
			decision: add("/metadata/labels", "x"), want: both("500 InternalError: Internal error occurred: json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels"),
		},
		{row: "M: patch adds an unknown field: dropped", phases: []usher.Phase{usher.Mutate}, decision: add("/unknown", "x"), want: both("allowed")},
		{
			row: "M: patch changes kind", phases: []usher.Phase{usher.Mutate},
			decision: add("/kind", "Nothing"), want: both(`500 InternalError: Internal error occurred: no kind "Nothing" is registered for version "v1"`),
		},
		{
			row: "M: allowed: false with patch: denied, the patch ignored", phases: []usher.Phase{usher.Mutate},
			decision: usher.Decision{Verdict: usher.Deny, Message: "no", Patch: usher.Patch{{Op: "add", Path: "/metadata/labels/a", Value: "b"}}},
			want:     both("400 : " + refusing + ": no"),
		},
		{row: "M: patch on DELETE is not passed on", phases: []usher.Phase{usher.Mutate}, operation: usher.Delete, decision: add("/metadata/labels/a", "b"), want: both("allowed")},
		{row: "M: patch on CONNECT: applied to the options", phases: []usher.Phase{usher.Mutate}, operation: usher.Connect, decision: add("/command/0", "ls"), want: both("allowed, changed")},
	}
	u := newUpstream(t)
	for _, test := range tests {
		t.Run(test.row, func(t *testing.T) {
			phases := test.phases
			if phases == nil {
				phases = []usher.Phase{usher.Mutate, usher.Validate}
			}
			for _, phase := range phases {
				for _, version := range []string{"v1", "v1beta1"} {
					handler := handlers(always(test.decision), quiet())[phase]
					test.want.check(t, u, call{phase: phase, version: version}, cmp.Or(test.operation, usher.Create), handler)
				}
			}
		})
	}
}

// What goes wrong behind the door is a denial that failurePolicy does not undo. Only who
// insists on it hangs up, or answers too late.
func TestAnswersOfTheDoorWithoutDecision(t *testing.T) {
	t.Parallel()
	fails := func(err error) usher.Decider {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), err })
	}
	panics := func(reason any) usher.Decider {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic(reason) })
	}
	tests := []struct {
		row     string
		decider usher.Decider
		want    outcome
	}{
		{"an error", fails(errors.New("broken")), both("500 InternalError: " + refusing + ": no decision was reached: broken")},
		{"too slow", fails(context.DeadlineExceeded), both("500 InternalError: " + refusing + ": no decision was reached: context deadline exceeded")},
		{"handler panic", panics("at the disco"), both("500 InternalError: " + refusing + ": no decision was reached: the decider panicked")},
		{"cut connection", panics(http.ErrAbortHandler), unheard(`failed to call webhook: Post "https://127.0.0.1:`)},
		{"unknown verdict", always(usher.Decision{Verdict: "perhaps"}), both("500 InternalError: " + refusing + ": no decision was reached: verdict \"perhaps\" is not known")},
	}
	u := newUpstream(t)
	for _, test := range tests {
		t.Run(test.row, func(t *testing.T) {
			for phase, handler := range handlers(test.decider, quiet()) {
				test.want.check(t, u, call{phase: phase, version: "v1"}, usher.Create, handler)
			}
		})
	}
}

// A reply is an answer as it comes over the wire, and what it answers.
type reply struct {
	phase     usher.Phase
	operation string
	version   string
	uid       string

	code   int
	header http.Header
	body   []byte
	review admissionv1.AdmissionReview
	// fields are those of response.
	fields map[string]any
}

func newReply(phase usher.Phase, asked []byte, w *httptest.ResponseRecorder) *reply {
	var question admissionv1.AdmissionReview
	_ = json.Unmarshal(asked, &question)
	r := &reply{
		phase: phase, operation: string(question.Request.Operation), version: question.APIVersion, uid: string(question.Request.UID),
		code: w.Code, header: w.Result().Header, body: w.Body.Bytes(),
	}
	_ = json.Unmarshal(r.body, &r.review)
	var all struct {
		Response map[string]any `json:"response"`
	}
	_ = json.Unmarshal(r.body, &all)
	r.fields = all.Response
	return r
}

func (r *reply) has(field string) bool {
	_, has := r.fields[field]
	return has
}

func (r *reply) patch() string {
	if r.review.Response == nil {
		return ""
	}
	return string(r.review.Response.Patch)
}

// An impossible is a kind of answer that the door never gives.
type impossible struct {
	row string
	// phase and operation are those of the example, mutate and CREATE if empty.
	phase     usher.Phase
	operation usher.Operation
	// body is the example, as another server may give it, with UID for that of the
	// request; answer writes it if there is more to it than a body.
	body   string
	answer func(w http.ResponseWriter, body string)
	want   outcome
	// is tells such an answer from others.
	is func(r *reply) bool
}

const (
	head    = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID",`
	granted = head + `"allowed":true}}`
)

// status answers with an HTTP status.
func status(code int, header ...string) func(w http.ResponseWriter, body string) {
	return func(w http.ResponseWriter, body string) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func impossibles() []impossible {
	// addLabel is a patch in base64, that of an empty list, of null and of nonsense.
	const addLabel, none, null, nonsense = "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9hIiwidmFsdWUiOiJiIn1d", "W10=", "bnVsbA==", "eA=="
	return []impossible{
		{row: "allowed missing: a denial", body: head + `"status":{}}}`, want: both("400 : " + refusing + " without explanation"), is: func(r *reply) bool { return !r.has("allowed") }},
		{row: "response missing", body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, want: unheard("received invalid webhook response: webhook response was absent"), is: func(r *reply) bool { return r.review.Response == nil }},
		{row: "uid missing", body: strings.Replace(granted, `"uid":"UID",`, "", 1), want: unheard("received invalid webhook response: expected response.uid="), is: func(r *reply) bool { return r.fields["uid"] != r.uid }},
		{row: "uid wrong", body: strings.Replace(granted, `UID`, "x", 1), want: unheard("received invalid webhook response: expected response.uid="), is: func(r *reply) bool { return r.fields["uid"] != r.uid }},
		{row: "apiVersion and kind missing", body: `{"response":{"uid":"UID","allowed":true}}`, want: unheard("received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="), is: func(r *reply) bool { return r.review.APIVersion == "" || r.review.Kind == "" }},
		{row: "other version than sent", body: strings.Replace(granted, "k8s.io/v1", "k8s.io/v1beta1", 1), want: unheard("failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"), is: func(r *reply) bool { return r.review.APIVersion != r.version }},
		{row: "other kind", body: `{"apiVersion":"v1","kind":"Pod"}`, want: unheard(`failed to call webhook: no kind "Pod" is registered`), is: func(r *reply) bool { return r.review.Kind != "AdmissionReview" }},
		{row: "unknown extra fields: ignored", body: head + `"allowed":true,"more":1}}`, want: both("allowed"), is: func(r *reply) bool {
			unknown, err := kjson.UnmarshalStrict(r.body, &admissionv1.AdmissionReview{})
			return len(unknown) > 0 || err != nil
		}},
		{row: "trailing bytes after the JSON", body: granted + "x", want: unheard("failed to call webhook: couldn't get version/kind; json parse error: invalid character 'x' after top-level value"), is: func(r *reply) bool { return !json.Valid(r.body) }},
		{row: "V: any patch", phase: usher.Validate, body: head + `"allowed":true,"patch":"` + none + `"}}`, want: unheard("received invalid webhook response: validating webhook may not return response.patch"), is: func(r *reply) bool { return r.phase == usher.Validate && r.has("patch") }},
		{row: "V: any patchType", phase: usher.Validate, body: head + `"allowed":false,"patchType":"JSONPatch"}}`, want: unheard("received invalid webhook response: validating webhook may not return response.patchType"), is: func(r *reply) bool { return r.phase == usher.Validate && r.has("patchType") }},
		{row: "M: patch without patchType", body: head + `"allowed":true,"patch":"` + addLabel + `"}}`, want: unheard("received invalid webhook response: webhook returned response.patch but not response.patchType"), is: func(r *reply) bool { return r.has("patch") && !r.has("patchType") }},
		{row: "M: patchType without patch", body: head + `"allowed":true,"patchType":"JSONPatch"}}`, want: unheard("received invalid webhook response: webhook returned response.patchType but not response.patch"), is: func(r *reply) bool { return r.has("patchType") && !r.has("patch") }},
		{row: `M: patchType ""`, body: head + `"allowed":true,"patch":"` + addLabel + `","patchType":""}}`, want: unheard(`received invalid webhook response: webhook returned invalid response.patchType of ""`), is: func(r *reply) bool { return r.fields["patchType"] == "" }},
		{row: "M: patchType MergePatch", body: head + `"allowed":true,"patch":"` + addLabel + `","patchType":"MergePatch"}}`, want: unheard(`unsupported patch type "MergePatch"`), is: func(r *reply) bool { return r.has("patchType") && r.fields["patchType"] != "JSONPatch" }},
		{row: "M: patch []", body: head + `"allowed":true,"patch":"` + none + `","patchType":"JSONPatch"}}`, want: both("allowed"), is: func(r *reply) bool { return r.patch() == "[]" }},
		{row: "M: patch null", body: head + `"allowed":true,"patch":"` + null + `","patchType":"JSONPatch"}}`, want: both("allowed"), is: func(r *reply) bool { return r.patch() == "null" }},
		{row: "M: undecodable patch", body: head + `"allowed":true,"patch":"` + nonsense + `","patchType":"JSONPatch"}}`, want: unheard("received undecodable patch in webhook response: "), is: func(r *reply) bool {
			_, err := jsonpatch.DecodePatch([]byte(r.patch()))
			return r.has("patch") && err != nil
		}},
		{row: "M: allowed: false with patch: denied, the patch ignored", body: head + `"allowed":false,"patch":"` + addLabel + `","patchType":"JSONPatch"}}`, want: both("400 : " + refusing + " without explanation"), is: func(r *reply) bool { return r.fields["allowed"] == false && r.has("patch") }},
		{row: "M: patch on DELETE", operation: usher.Delete, body: head + `"allowed":true,"patch":"` + addLabel + `","patchType":"JSONPatch"}}`, want: both("500 InternalError: Internal error occurred: admission webhook \"n.example.com\" attempted to modify the object, which is not supported for this operation"), is: func(r *reply) bool { return r.operation == "DELETE" && r.has("patch") }},
		{row: "HTTP 2xx other than 200: accepted", body: granted, answer: status(201), want: both("allowed"), is: func(r *reply) bool { return r.code > 200 && r.code < 300 }},
		{row: "HTTP 4xx/5xx, even with a valid allowed review in the body", body: granted, answer: status(500), want: unheard("failed to call webhook: an error on the server"), is: func(r *reply) bool { return r.code >= 400 }},
		{row: "HTTP 413", body: "boom", answer: status(413), want: unheard("failed to call webhook: the server responded with the status code 413"), is: func(r *reply) bool { return r.code == 413 }},
		{row: "HTTP 404", body: "boom", answer: status(404), want: unheard("failed to call webhook: the server could not find the requested resource"), is: func(r *reply) bool { return r.code == 404 }},
		{row: "HTTP 400", body: "boom", answer: status(400), want: unheard("failed to call webhook: the server rejected our request for an unknown reason"), is: func(r *reply) bool { return r.code == 400 }},
		{row: "HTTP 500 text", body: "boom", answer: status(500), want: unheard(`failed to call webhook: an error on the server ("boom")`), is: func(r *reply) bool { return r.code == 500 }},
		{row: "3xx: redirects followed", answer: status(307, "Location", "https://127.0.0.1:1/"), want: unheard("failed to call webhook: Post \"https://127.0.0.1:1/\""), is: func(r *reply) bool { return r.code >= 300 && r.code < 400 }},
		{row: "Content-Type text/plain: accepted", body: granted, answer: status(200, "Content-Type", "text/plain"), want: both("allowed"), is: func(r *reply) bool { return r.header.Get("Content-Type") != "application/json" }},
		{row: "an unparsable media type", body: granted, answer: status(200, "Content-Type", ";"), want: unheard("failed to call webhook: "), is: func(r *reply) bool { return r.header.Get("Content-Type") != "application/json" }},
		{row: "empty 200 body", answer: status(200, "Content-Type", "application/json"), want: unheard("failed to call webhook: 0-length response with status code: 200 and content type: application/json"), is: func(r *reply) bool { return len(bytes.TrimSpace(r.body)) == 0 }},
	}
}

// other answers as another server than ours.
func (i impossible) other() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			panic(err)
		}
		body := strings.ReplaceAll(i.body, "UID", string(review.Request.UID))
		if i.answer == nil {
			i.answer = status(200, "Content-Type", "application/json")
		}
		i.answer(w, body)
	})
}

// What the API server does with an answer of that kind is what the list says, the kind is
// told from others, and nothing that is decided makes the door give one.
func TestAnswersThatTheDoorNeverGives(t *testing.T) {
	t.Parallel()
	all := doorReplies(t)
	u := newUpstream(t)
	for _, row := range impossibles() {
		t.Run(row.row, func(t *testing.T) {
			c := call{phase: cmp.Or(row.phase, usher.Mutate), version: "v1"}
			row.want.check(t, u, c, cmp.Or(row.operation, usher.Create), row.other())
			asked := []byte(fmt.Sprintf(small, ""))
			if row.operation == usher.Delete {
				asked = []byte(strings.Replace(without(t, "CREATE", "DELETE"), `"object"`, `"oldObject"`, 1))
			}
			if example := newReply(c.phase, asked, post(row.other(), asked)); !row.is(example) {
				t.Errorf("the example is not told from others: %d %s", example.code, example.body)
			}
			for _, r := range all {
				if row.is(r) {
					t.Errorf("the door gives such an answer: %s %d %s", r.phase, r.code, r.body)
				}
			}
		})
	}
}

// doorReplies are the door's answers to captured reviews, one of each sort, with whatever
// may be decided.
func doorReplies(t *testing.T) []*reply {
	t.Helper()
	text := "\x00\n\xff\u2028<&>" + strings.Repeat("é", 20)
	ops := []usher.PatchOp{
		{}, {Op: "add", Path: "/metadata/labels/a", Value: "b"}, {Op: "remove", Path: "/nothing"}, {Op: "move", Path: text, Value: text},
		{Op: text, Path: "no/pointer", Value: []any{nil, 1.5, map[string]any{"": nil}}}, {Op: "add", Path: "/a", Value: math.Inf(1)}, {Op: "add", Path: "/a", Value: func() {}},
	}
	patches := []usher.Patch{nil, {}, ops}
	for _, op := range ops {
		patches = append(patches, usher.Patch{op})
	}
	errs := field.ErrorList{{}, field.Invalid(nil, text, text), field.Invalid(field.NewPath(text), math.NaN(), "")}
	var deciders []usher.Decider
	for i, patch := range patches {
		for k, verdict := range []usher.Verdict{usher.Allow, usher.Deny, usher.NoOpinion, "perhaps"} {
			codes := []int32{0, -1, 200, 302, 413, 500, 999}
			deciders = append(deciders, always(usher.Decision{
				Verdict: verdict, Code: codes[(i+k)%len(codes)], Reason: text, Message: text, Patch: patch, Fields: errs,
				Warnings: []string{"", text}, Audit: map[string]string{"": text, text: ""},
				Findings: []usher.Finding{{}, {Outcome: usher.Rejected, Message: text, Rule: text}, {Outcome: usher.Failed}},
			}))
		}
	}
	deciders = append(deciders,
		always(usher.Denied("%s", strings.Repeat(text, 1000))),
		usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Allowed(), errors.New(text)
		}),
		usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic(text) }),
	)
	asked := reviews(t)
	var all []*reply
	for _, name := range []string{
		"v1-create-pods.json", "v1-update-pods.json", "v1-delete-pods.json", "v1-connect-pods-exec.json", "v1beta1-create-pods.json", "v1beta1-delete-pods.json",
	} {
		for _, d := range deciders {
			for phase, handler := range handlers(d, quiet()) {
				all = append(all, newReply(phase, asked[name], post(handler, asked[name])))
			}
		}
	}
	return all
}
