package admission

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	usher "github.com/usher-dev/usher"
)

// Limits on what is answered, since rules can be made to say anything at any length.
const (
	maxMessage = 16 << 10
	maxAudit   = 4 << 10
	maxCauses  = 100
	// An API server that gets more than maxWarnings characters in all cuts each warning to
	// maxWarning, and then drops what is still too much.
	maxWarnings = 4096
	maxWarning  = 256
	// maxAuditKey is the longest key of an audit annotation.
	maxAuditKey = 63
)

// The types of status causes.
const (
	policyRejected metav1.CauseType = "PolicyRejected"
	policyFailed   metav1.CauseType = "PolicyFailed"
)

// respond turns a decision into the answer to q, without uid.
func respond(q *usher.Request, d usher.Decision) (*admissionv1.AdmissionResponse, error) {
	response := &admissionv1.AdmissionResponse{
		Warnings:         cleanWarnings(d.Warnings),
		AuditAnnotations: cleanAudit(d.Audit),
	}
	switch d.Verdict {
	case usher.Deny:
		response.Result = failure(d.Code, d.Reason, d.Message)
		response.Result.Details = details(q, &d)
		return response, nil
	case usher.Allow, usher.NoOpinion:
		response.Allowed = true
		response.Result = &metav1.Status{Code: http.StatusOK, Message: cut(d.Message, maxMessage)}
	default:
		return nil, fmt.Errorf("verdict %q is not known", d.Verdict)
	}
	// An API server refuses patches of the other requests.
	if len(d.Patch) == 0 || q.Phase != usher.Mutate || q.Operation == usher.Delete {
		return response, nil
	}
	patch, err := d.Patch.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	jsonPatch := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &jsonPatch
	return response, nil
}

// denial is the answer to a review that was not decided.
func denial(code int32, message string) *admissionv1.AdmissionResponse {
	reason := metav1.StatusReasonBadRequest
	switch code {
	case http.StatusRequestEntityTooLarge:
		reason = metav1.StatusReasonRequestEntityTooLarge
	case http.StatusInternalServerError:
		reason = metav1.StatusReasonInternalError
	}
	return &admissionv1.AdmissionResponse{Result: failure(code, string(reason), message)}
}

func failure(code int32, reason, message string) *metav1.Status {
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  metav1.StatusReason(reason),
		Message: cut(message, maxMessage),
	}
}

// details names the fields and the policies that are the reason of a denial.
func details(q *usher.Request, d *usher.Decision) *metav1.StatusDetails {
	causes := append(fieldCauses(d.Fields), findingCauses(d.Findings)...)
	if len(causes) == 0 {
		return nil
	}
	causes = causes[:min(len(causes), maxCauses)]
	return &metav1.StatusDetails{Name: q.Name, Group: q.Kind.Group, Kind: q.Kind.Kind, Causes: causes}
}

func fieldCauses(errs field.ErrorList) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, err := range errs[:min(len(errs), maxCauses)] {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseType(err.Type), Message: cut(err.ErrorBody(), maxMessage), Field: cut(err.Field, maxMessage),
		})
	}
	return causes
}

func findingCauses(findings []usher.Finding) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i := range findings {
		f := &findings[i]
		cause := metav1.StatusCause{Field: f.Policy.String() + " " + f.Rule}
		switch {
		case f.Outcome == usher.Rejected:
			cause.Type, cause.Message = policyRejected, cut(f.Message, maxMessage)
		case f.Outcome == usher.Failed && !f.Ignored:
			cause.Type, cause.Message = policyFailed, cut(failureOf(f), maxMessage)
		default:
			continue
		}
		if causes = append(causes, cause); len(causes) == maxCauses {
			break
		}
	}
	return causes
}

func failureOf(f *usher.Finding) string {
	if f.Err == nil {
		return f.Message
	}
	return f.Err.Error()
}

// cut returns text in valid UTF-8 and at most limit bytes.
func cut(text string, limit int) string {
	const more = "…"
	if len(text) > limit {
		// A character that is cut in two is not valid, and goes.
		return strings.ToValidUTF8(text[:limit-len(more)], "") + more
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// cleanWarnings returns the warnings in a form that an API server passes on in full: it
// drops those with control characters and shortens them all when they are too long.
func cleanWarnings(warnings []string) []string {
	var clean []string
	total := 0
	for _, warning := range warnings {
		warning = oneLine(warning)
		if warning == "" || slices.Contains(clean, warning) {
			continue
		}
		clean = append(clean, warning)
		total += utf8.RuneCountInString(warning)
		if total > 2*maxWarnings && len(clean) > maxWarnings/maxWarning {
			// Enough to fill whatever there is room for.
			break
		}
	}
	if total <= maxWarnings {
		return clean
	}
	total = 0
	for i, warning := range clean {
		clean[i] = cutRunes(warning, maxWarning)
		if total += utf8.RuneCountInString(clean[i]); total > maxWarnings {
			return clean[:i]
		}
	}
	return clean
}

// oneLine replaces what may not stand in a header.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	return strings.TrimSpace(text)
}

func cutRunes(text string, limit int) string {
	runes := 0
	for i := range text {
		if runes++; runes == limit && utf8.RuneCountInString(text[i:]) > 1 {
			return text[:i] + "…"
		}
	}
	return text
}

// cleanAudit returns the annotations with keys that an API server takes.
func cleanAudit(audit map[string]string) map[string]string {
	if len(audit) == 0 {
		return nil
	}
	clean := make(map[string]string, len(audit))
	// In order, so that of two keys that become one always the same is kept.
	for _, key := range slices.Sorted(maps.Keys(audit)) {
		valid := auditKey(key)
		if _, taken := clean[valid]; valid != "" && !taken {
			clean[valid] = cut(audit[key], maxAudit)
		}
	}
	return clean
}

// auditKey makes a key a name as Kubernetes wants it: letters, digits, and -_. inside.
func auditKey(key string) string {
	key = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '-'
	}, key)
	key = strings.TrimLeft(key, "-_.")
	return strings.TrimRight(key[:min(len(key), maxAuditKey)], "-_.")
}
