package admission_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhook "k8s.io/apiserver/pkg/admission/plugin/webhook/request"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/printable/printabletest"
)

// answer returns the answer of a mutating webhook that comes to a decision.
func answer(t *testing.T, d usher.Decision) *webhook.AdmissionResponse {
	t.Helper()
	body := []byte(fmt.Sprintf(small, `,"name":"web"`))
	w := post(admission.Mutate(always(d), quiet()), body)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return verify(t, usher.Mutate, body, w.Body.Bytes())
}

func TestStatusOfDenial(t *testing.T) {
	t.Parallel()
	cluster := usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}
	local := usher.PolicyRef{Kind: "OverridePolicy", Namespace: "shop", Name: "add-team"}
	got := answer(t, usher.Decision{
		Verdict: usher.Deny, Code: 422, Reason: "Invalid", Message: "label team is required",
		Findings: []usher.Finding{
			{Policy: local, Rule: "spec.overrideRules[0]", Outcome: usher.Passed},
			{Policy: local, Rule: "spec.overrideRules[1]", Outcome: usher.Failed, Err: errors.New("ignored"), Ignored: true},
			{Policy: cluster, Rule: "spec.validateRules[0]", Outcome: usher.Rejected, Message: "label team is required"},
			{Policy: cluster, Rule: "spec.validateRules[1]", Outcome: usher.Rejected},
			{Policy: local, Rule: "spec.overrideRules[2]", Outcome: usher.Failed, Err: errors.New("no such field")},
		},
	})
	want := &metav1.Status{
		Status: "Failure", Code: 422, Reason: "Invalid",
		Message: "label team is required (ClusterValidatePolicy require-team); no such field (OverridePolicy shop/add-team spec.overrideRules[2])",
		Details: &metav1.StatusDetails{Name: "web", Kind: "Pod", Causes: []metav1.StatusCause{
			{Type: "PolicyRejected", Message: "label team is required", Field: "ClusterValidatePolicy require-team spec.validateRules[0]"},
			{Type: "PolicyRejected", Field: "ClusterValidatePolicy require-team spec.validateRules[1]"},
			{Type: "PolicyFailed", Message: "no such field", Field: "OverridePolicy shop/add-team spec.overrideRules[2]"},
		}},
	}
	if diff := cmp.Diff(want, got.Result); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	d := usher.Denied("%s", strings.Repeat("é", 1<<20)+"\xff")
	for range 1000 {
		d.Findings = append(d.Findings, usher.Finding{Outcome: usher.Rejected, Message: "no"})
	}
	got := answer(t, d)
	if n := len(got.Result.Message); n > 16<<10 || n < 15<<10 || !strings.HasSuffix(got.Result.Message, "é…") {
		t.Errorf("message has %d bytes and ends in %q", n, got.Result.Message[n-8:])
	}
	if n := len(got.Result.Details.Causes); n != 100 {
		t.Errorf("%d causes", n)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	var many, cut []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("%02d%s", i, long))
		if i < 15 {
			cut = append(cut, fmt.Sprintf("%02d%s…", i, strings.Repeat("é", 253)))
		}
	}
	cut = append(cut, "25 more warnings are left out: 'usher decide' shows all of a request, and 'usher check' those of a policy")
	tests := []struct {
		reason string
		said   []string
		want   []string
	}{
		{"none", nil, nil},
		{"nothing that can be shown", []string{"", "\n", " \u0085"}, nil},
		{"lines become one, in order, each once", []string{"b\nb", "a\x1b[31m", "b b", "b\tb"}, []string{"b b", "a [31m"}},
		{"bytes that are no text are marked", []string{"a\xff\xfeb"}, []string{"a\ufffdb"}},
		{"a long one is left alone while there is room", []string{long, "b"}, []string{long, "b"}},
		{"all are cut when there is no room, and the last are counted", many, cut},
		{"one that is too long for all the room", []string{strings.Repeat("x", 5000)}, []string{strings.Repeat("x", 255) + "…"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			got := answer(t, usher.Decision{Verdict: usher.Allow, Warnings: test.said}).Warnings
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			total := 0
			for _, warning := range got {
				if _, err := utilnet.NewWarningHeader(299, "-", warning); err != nil {
					t.Errorf("%q: %v", warning, err)
				}
				total += utf8.RuneCountInString(warning)
			}
			if total > 4096 {
				t.Errorf("%d characters in all", total)
			}
		})
	}
}

func TestAuditAnnotations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 62)
	got := answer(t, usher.Decision{Verdict: usher.Allow, Audit: map[string]string{
		"rule":             "a",
		"usher.dev/policy": "b",
		"two words":        "c",
		"two-words":        "d",
		"-édge.":           "e",
		"--":               "f",
		"":                 "g",
		long + ".z":        "h",
		"long":             strings.Repeat("v", 5000) + "\xff",
		"empty":            "",
	}}).AuditAnnotations
	want := map[string]string{
		"rule":             "a",
		"usher.dev-policy": "b",
		"two-words":        "c",
		"dge":              "e",
		long:               "h",
		"long":             strings.Repeat("v", 4093) + "…",
		"empty":            "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	valid := regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)
	for key := range got {
		if !valid.MatchString(key) || len(key) > 63 {
			t.Errorf("key %q is not valid", key)
		}
	}
}

// Fields come before what policies say: they are for people.
func TestFieldErrorsAreCauses(t *testing.T) {
	t.Parallel()
	image := field.NewPath("spec", "containers").Index(0).Child("image")
	d := usher.Validated(field.ErrorList{field.Required(image, ""), field.Invalid(image, "a:latest", "no latest")})
	d.Findings = []usher.Finding{{Policy: usher.PolicyRef{Kind: "K", Name: "n"}, Rule: "r", Outcome: usher.Rejected, Message: "no"}}
	want := &metav1.Status{
		Status: "Failure", Code: 422, Reason: "Invalid", Message: d.Message + " (K n)",
		Details: &metav1.StatusDetails{Name: "web", Kind: "Pod", Causes: []metav1.StatusCause{
			{Type: "FieldValueRequired", Message: "Required value", Field: "spec.containers[0].image"},
			{Type: "FieldValueInvalid", Message: `Invalid value: "a:latest": no latest`, Field: "spec.containers[0].image"},
			{Type: "PolicyRejected", Message: "no", Field: "K n r"},
		}},
	}
	if diff := cmp.Diff(want, answer(t, d).Result); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	d.Fields = nil
	for range 1000 {
		d.Fields = append(d.Fields, field.Invalid(image, strings.Repeat("é", 1<<14), ""))
	}
	causes := answer(t, d).Result.Details.Causes
	if n := len(causes); n != 100 {
		t.Errorf("%d causes", n)
	}
	if n := len(causes[0].Message); n > 16<<10 {
		t.Errorf("a cause of %d bytes", n)
	}
}

// TestProblemsOfAWrittenPolicyAreCauses: the fields are those of the object that was written.
func TestProblemsOfAWrittenPolicyAreCauses(t *testing.T) {
	t.Parallel()
	d := usher.Denied("ObjectPolicy shop/p: no")
	for _, field := range []string{"spec.validations[0].expression", ""} {
		d.Findings = append(d.Findings, usher.Finding{
			Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "p"}, Written: true, Rule: field, Outcome: usher.Rejected, Message: "no",
		})
	}
	want := []metav1.StatusCause{
		{Type: "PolicyRejected", Message: "no", Field: "spec.validations[0].expression"},
		{Type: "PolicyRejected", Message: "no", Field: "ObjectPolicy shop/p"},
	}
	if diff := cmp.Diff(want, answer(t, d).Result.Details.Causes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTextsOfOthers: what policies and objects say cannot control the terminal that shows it, nor reverse its
// direction. Lines stay.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	const hostile = printabletest.Hostile
	policy := usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}
	got := answer(t, usher.Decision{
		Verdict: usher.Deny, Code: 422, Reason: "Invalid", Message: hostile + "\n\tand more", Warnings: []string{hostile}, Audit: map[string]string{"said": hostile},
		Findings: []usher.Finding{{
			Policy: policy, Rule: "spec.validateRules[0]", Outcome: usher.Rejected, Message: hostile,
			Checks: []usher.Check{{Message: hostile, Field: hostile}},
		}},
	})
	texts := append([]string{got.Result.Message}, got.Warnings...)
	for _, cause := range got.Result.Details.Causes {
		texts = append(texts, cause.Field, cause.Message)
	}
	for _, value := range got.AuditAnnotations {
		texts = append(texts, value)
	}
	if len(texts) < 5 {
		t.Fatalf("there are only the texts %q", texts)
	}
	if !strings.Contains(got.Result.Message, "\n\tand more") {
		t.Errorf("the message lost its lines: %q", got.Result.Message)
	}
	for _, text := range texts {
		if bad := printabletest.Controls(text); len(bad) > 0 {
			t.Errorf("%q has %q", text, bad)
		}
	}
}
