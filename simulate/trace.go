package simulate

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

// A Trace is the result of one request, with its steps.
type Trace struct {
	Operation usher.Operation `json:"operation"`
	// Resource is what was asked of, with the subresource behind a slash.
	Resource  string `json:"resource"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	User      string `json:"user"`
	DryRun    bool   `json:"dryRun,omitempty"`

	Admitted bool `json:"admitted"`
	// Error is what the client gets if the request is refused.
	Error *metav1.Status `json:"error,omitempty"`
	// Warnings are those that reach the client, Audit what reaches the audit log.
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"audit,omitempty"`
	Steps    []Step            `json:"steps"`
	// Reinvoked tells that the mutating plugins ran twice, since something had changed
	// the object.
	Reinvoked bool `json:"reinvoked,omitempty"`
	// Result is the object that would be stored, or that a deletion would remove; nil when
	// refused.
	Result map[string]any `json:"result,omitempty"`
	Took   time.Duration  `json:"took"`

	// Before is the object as the client sent it, with the fields that its type writes even if they are empty.
	Before map[string]any `json:"-"`
}

// A Step is what one webhook, one policy with one binding, or one plugin did.
type Step struct {
	Phase usher.Phase `json:"phase"`
	// Round is 0, or 1 when the mutating plugins run again.
	Round  int    `json:"round"`
	Plugin string `json:"plugin"`
	// Name is configuration/webhook, or policy/binding; empty for a plugin that is neither.
	Name string `json:"name,omitempty"`
	// Param is the object that parametrizes the policy.
	Param string `json:"param,omitempty"`
	// Called tells whether it was asked. Why says what decided that.
	Called  bool    `json:"called"`
	Why     string  `json:"why,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Message is what it said, or why it failed.
	Message string `json:"message,omitempty"`
	Code    int32  `json:"code,omitempty"`
	// SentAs is the version that the object was converted to, if it had another one.
	SentAs string `json:"sentAs,omitempty"`
	// URL is where the call went, By who answered.
	URL      string            `json:"url,omitempty"`
	By       string            `json:"by,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"audit,omitempty"`
	// Checks are the single expressions of a policy, and the conditions of a webhook.
	Checks []Check `json:"checks,omitempty"`
	// Patch is what a webhook answered. Diff is what that came to: a unified diff of the
	// object as YAML.
	Patch json.RawMessage `json:"patch,omitempty"`
	Diff  string          `json:"diff,omitempty"`
	Took  time.Duration   `json:"took"`
}

// A Check is one expression and what it said.
type Check struct {
	// Name is its place, such as matchConditions[not-leases] or validations[0].
	Name       string `json:"name"`
	Expression string `json:"expression"`
	// Value is true, false, or error.
	Value   string `json:"value"`
	Message string `json:"message,omitempty"`
}

// An Outcome sums a [Step] up in one word.
type Outcome string

// The outcomes of a step.
const (
	// Skipped: it was not asked.
	Skipped Outcome = "skipped"
	// Passed: it was asked and had nothing against it, and nothing to change.
	Passed Outcome = "passed"
	// Changed: it changed the object.
	Changed Outcome = "changed"
	// Denied: it refused the request.
	Denied Outcome = "denied"
	// Reported: it would have refused, but is only to warn or to audit.
	Reported Outcome = "reported"
	// Failed: it came to no result, which refused the request.
	Failed Outcome = "failed"
	// Ignored: it came to no result, and is not to keep the request from going on.
	Ignored Outcome = "ignored"
	// Unreached: something before had ended the request.
	Unreached Outcome = "unreached"
)
