// Package answer turns decisions into responses to API servers and their clients. The doors for
// admission share it, so that their responses are the same.
package answer

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
)

// Limits of a response: messages of rules can have any content and length.
const (
	maxMessage = 16 << 10
	maxAudit   = 4 << 10
	maxCauses  = 100
	// If all warnings together have more than maxWarnings characters, an API server cuts each one
	// to maxWarning and then drops the excess.
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

// Denial returns the status of a decision that denies, and nil otherwise. Its message names the
// policies that deny, which the message of the decision omits. An unknown verdict is an error.
func Denial(q *usher.Request, d usher.Decision) (*metav1.Status, error) {
	switch d.Verdict {
	case usher.Allow, usher.NoOpinion:
		return nil, nil
	case usher.Deny:
		status := failure(d.Code, d.Reason, told(&d))
		status.Details = details(q, &d)
		return status, nil
	}
	return nil, fmt.Errorf("verdict %q is not known", d.Verdict)
}

// Undecided returns the status of a request without a decision.
func Undecided(reason error) *metav1.Status {
	return Refusal(http.StatusInternalServerError, fmt.Sprintf("no decision was reached: %v", reason))
}

// Message returns text as valid UTF-8, cut to the limit of a response.
func Message(text string) string { return printable.Excerpt(text, maxMessage) }

// Patch returns the changes of a decision to the object of q: none in phases and operations that
// allow none.
func Patch(q *usher.Request, d usher.Decision) usher.Patch {
	if q.Phase != usher.Mutate || q.Operation == usher.Delete || q.Object == nil || d.Verdict == usher.Deny {
		return nil
	}
	return d.Patch
}

// Error returns the error that an API server makes from the status of a denial. By names the source
// of the denial, such as admission webhook "validate.usher.dev".
func Error(by string, status *metav1.Status) *apierrors.StatusError {
	told := *status
	if told.Code < http.StatusBadRequest {
		told.Code = http.StatusBadRequest
	}
	told.Status = metav1.StatusFailure
	switch {
	case told.Message != "":
		told.Message = by + " denied the request: " + told.Message
	case told.Reason != "":
		told.Message = by + " denied the request: " + string(told.Reason)
	default:
		told.Message = by + " denied the request without explanation"
	}
	return &apierrors.StatusError{ErrStatus: told}
}

// Refusal returns the status of a request that was not decided.
func Refusal(code int32, message string) *metav1.Status {
	reason := metav1.StatusReasonBadRequest
	switch code {
	case http.StatusRequestEntityTooLarge:
		reason = metav1.StatusReasonRequestEntityTooLarge
	case http.StatusInternalServerError:
		reason = metav1.StatusReasonInternalError
	}
	return failure(code, string(reason), message)
}

func failure(code int32, reason, message string) *metav1.Status {
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  metav1.StatusReason(reason),
		Message: printable.Excerpt(message, maxMessage),
	}
}

// details returns the fields and the policies that caused a denial.
func details(q *usher.Request, d *usher.Decision) *metav1.StatusDetails {
	causes := append(fieldCauses(d.Fields), findingCauses(d.Findings)...)
	if len(causes) == 0 {
		return nil
	}
	causes = causes[:min(len(causes), maxCauses)]
	if causes[0].Type == "" {
		// It is the denial of an admission policy of Kubernetes.
		return &metav1.StatusDetails{Name: cmp.Or(q.Name, "Unknown"), Group: q.Resource.Group, Kind: q.Resource.Resource, Causes: causes}
	}
	return &metav1.StatusDetails{Name: q.Name, Group: q.Kind.Group, Kind: q.Kind.Kind, Causes: causes}
}

func fieldCauses(errs field.ErrorList) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, err := range errs[:min(len(errs), maxCauses)] {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseType(err.Type), Message: printable.Excerpt(err.ErrorBody(), maxMessage), Field: printable.Excerpt(err.Field, maxMessage),
		})
	}
	return causes
}

func findingCauses(findings []usher.Finding) []metav1.StatusCause {
	var causes []metav1.StatusCause
	native := false
	for i := range findings {
		f := &findings[i]
		cause := metav1.StatusCause{Field: strings.TrimSuffix(f.Policy.String()+" "+f.Rule, " ")}
		switch {
		case rejectedByNative(f) && native:
			continue
		case rejectedByNative(f):
			native, cause = true, metav1.StatusCause{Message: printable.Excerpt(f.Message, maxMessage)}
		case f.Outcome == usher.Rejected && denies(f):
			causes = append(causes, checkCauses(f)...)
			continue
		case f.Outcome == usher.Rejected:
			cause.Type, cause.Message = policyRejected, printable.Excerpt(f.Message, maxMessage)
			if f.Written && f.Rule != "" {
				// The policy is the object of the request, and the rule one of its fields.
				cause.Field = printable.Excerpt(f.Rule, maxMessage)
			}
		case f.Outcome == usher.Failed && !f.Ignored:
			cause.Type, cause.Message = policyFailed, printable.Excerpt(failureOf(f), maxMessage)
		default:
			continue
		}
		if causes = append(causes, cause); len(causes) == maxCauses {
			break
		}
	}
	return causes
}

// denies reports whether a part of the rule says by itself why the request is denied.
func denies(f *usher.Finding) bool {
	return slices.ContainsFunc(f.Checks, func(c usher.Check) bool { return slices.Contains(c.Actions, usher.ActDeny) })
}

// checkCauses returns a cause for each part of a rule that denies the request. Clients such as
// kubectl show fields and messages of the causes, and nothing else.
func checkCauses(f *usher.Finding) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i := range f.Checks {
		c := &f.Checks[i]
		if !slices.Contains(c.Actions, usher.ActDeny) || len(causes) == maxCauses {
			continue
		}
		cause := metav1.StatusCause{Type: policyRejected, Message: printable.Excerpt(c.Message, maxMessage), Field: f.Policy.String() + " " + c.Name}
		if c.Field != "" {
			cause.Field, cause.Message = printable.Excerpt(c.Field, maxMessage), printable.Excerpt(c.Message, maxMessage)+" ("+f.Policy.String()+")"
		}
		causes = append(causes, cause)
	}
	return causes
}

func failureOf(f *usher.Finding) string {
	if f.Err == nil {
		return f.Message
	}
	return f.Err.Error()
}

// Warnings returns the warnings in a form that an API server passes on in full: it
// drops those with control characters and shortens them all when they are too long. The last one then says how many
// are left out.
func Warnings(warnings []string) []string {
	var clean []string
	total, left := 0, 0
	for i, warning := range warnings {
		warning = printable.Blank(warning)
		if warning == "" || slices.Contains(clean, warning) {
			continue
		}
		clean = append(clean, warning)
		total += utf8.RuneCountInString(warning)
		if total > 2*maxWarnings && len(clean) > maxWarnings/maxWarning {
			// Enough to fill all available space.
			left = len(warnings) - i - 1
			break
		}
	}
	if total <= maxWarnings {
		return clean
	}
	total = 0
	for i, warning := range clean {
		clean[i] = printable.CutRunes(warning, maxWarning)
		size := utf8.RuneCountInString(clean[i])
		last := i == len(clean)-1 && left == 0
		if total+size > maxWarnings || !last && total+size > maxWarnings-maxWarning {
			left += len(clean) - i
			return append(clean[:i], fmt.Sprintf("%d more warnings are left out: 'usher decide' shows all of a request, and 'usher check' those of a policy", left))
		}
		total += size
	}
	return clean
}

// Audit returns the annotations with keys that an API server accepts.
func Audit(audit map[string]string) map[string]string {
	if len(audit) == 0 {
		return nil
	}
	clean := make(map[string]string, len(audit))
	// Sorted, so that of two keys that become equal the same one is always kept.
	for _, key := range slices.Sorted(maps.Keys(audit)) {
		valid := auditKey(key)
		if _, taken := clean[valid]; valid != "" && !taken {
			clean[valid] = printable.Excerpt(audit[key], maxAudit)
		}
	}
	return clean
}

// auditKey turns a key into a valid name of Kubernetes: letters, digits, and -_. inside.
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
