package usher

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/usher-dev/usher/internal/jsontree"
)

// A Verdict is what a [Decider] says of a request.
type Verdict string

// The verdicts. Admission has no use for NoOpinion, the zero value, and lets it pass.
const (
	NoOpinion Verdict = ""
	Allow     Verdict = "allow"
	Deny      Verdict = "deny"
)

// A Decision answers one [Request].
type Decision struct {
	Verdict Verdict

	// Code is the HTTP status of a denial; 0 leaves it to the door (the API server
	// turns it into 400). A request that could not be decided because a rule failed
	// carries 500.
	Code int32
	// Reason is the machine-readable reason of a denial (a metav1.StatusReason, for
	// admission); Message is the sentence for whoever made the request.
	Reason  string
	Message string
	// Fields are what is wrong with which field, for those who show each: kubectl does for
	// the reason Invalid. Message says all of it too.
	Fields field.ErrorList

	// Patch changes the object, in order. Only Mutate decisions carry one.
	Patch Patch
	// Warnings are shown to whoever made the request, also when it is allowed.
	Warnings []string
	// Audit goes into the API server's audit log.
	Audit map[string]string

	// Findings are what each rule that ran said, in evaluation order.
	Findings []Finding
}

// Allowed returns a decision that lets the request pass unchanged.
func Allowed() Decision { return Decision{Verdict: Allow} }

// Denied returns a decision that refuses the request with a sentence that says why.
func Denied(format string, args ...any) Decision {
	return Decision{Verdict: Deny, Message: fmt.Sprintf(format, args...)}
}

// Validated returns a decision that lets the request pass if there are no errors, and
// otherwise refuses it as invalid, as an API server does.
func Validated(errs field.ErrorList) Decision {
	if len(errs) == 0 {
		return Allowed()
	}
	return Decision{
		Verdict: Deny,
		Code:    http.StatusUnprocessableEntity,
		Reason:  "Invalid",
		Message: errs.ToAggregate().Error(),
		Fields:  errs,
	}
}

// Patched returns a decision that lets the request pass with changes.
func Patched(ops ...PatchOp) Decision { return Decision{Verdict: Allow, Patch: ops} }

// A Patch is a list of JSON patch operations (RFC 6902), applied in order, all or none.
type Patch []PatchOp

// A PatchOp is one operation of a [Patch].
type PatchOp struct {
	// Op is add, remove, replace, test, copy or move.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// From is the JSON pointer to what copy and move take; the others have none.
	From string `json:"from,omitempty"`
	// Value is a JSON value as [Object.Tree] describes; remove, copy and move have none. It is
	// shared: do not change it.
	Value any `json:"value"`
}

// Pointer returns the JSON pointer (RFC 6901) that leads through the keys, as the path of
// a [PatchOp]: the key of a label may have slashes in it.
func Pointer(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteByte('/')
		_, _ = pointerEscapes.WriteString(&b, key)
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// MarshalJSON writes a null value as such: an add without value is not valid.
func (op PatchOp) MarshalJSON() ([]byte, error) { return op.appendJSON(nil) }

func (op *PatchOp) appendJSON(to []byte) ([]byte, error) {
	to = append(to, `{"op":`...)
	to = jsontree.AppendString(to, op.Op)
	to = append(to, `,"path":`...)
	to = jsontree.AppendString(to, op.Path)
	switch op.Op {
	case "remove":
	case "copy", "move":
		to = append(to, `,"from":`...)
		to = jsontree.AppendString(to, op.From)
	default:
		to = append(to, `,"value":`...)
		var err error
		if to, err = jsontree.Append(to, op.Value); err != nil {
			return nil, fmt.Errorf("encode %s: %w", op.Path, err)
		}
	}
	return append(to, '}'), nil
}

// AppendJSON appends the patch as JSON, as json.Marshal would write it.
func (p Patch) AppendJSON(to []byte) ([]byte, error) {
	if p == nil {
		return append(to, "null"...), nil
	}
	to = append(to, '[')
	for i := range p {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = p[i].appendJSON(to); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

// A PolicyRef names a policy. Namespace is empty for cluster-scoped kinds.
type PolicyRef struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns "Kind name" or "Kind namespace/name".
func (p PolicyRef) String() string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// A Finding is what one rule said of one request.
type Finding struct {
	Policy PolicyRef `json:"policy"`
	// Written says that Policy is the one that is being written, and that policy admission says
	// this about it: the policy itself decided nothing.
	Written bool `json:"written,omitempty"`
	// Rule is the rule's place in its policy, such as spec.validateRules[0].
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// Message is the reason of a rejection. It may be empty. The message of the decision can be
	// empty where this one is not: as kinitiras has it, affectMode allow rejects without one.
	Message string `json:"message,omitempty"`
	// Err is set when the rule failed. Ignored tells that its failure policy let the
	// request pass all the same.
	Err     error `json:"-"`
	Ignored bool  `json:"ignored,omitempty"`
	// Patch is what this rule changed.
	Patch Patch         `json:"patch,omitempty"`
	Took  time.Duration `json:"took"`
	// Confidential says that the rule has read an object that holds credentials, such as a
	// Secret: Message, Err and Patch may repeat them. Users get the message that the author
	// of the policy has written; logs and explanations leave it out.
	Confidential bool `json:"confidential,omitempty"`
}

// An Outcome sums a [Finding] up in one word.
type Outcome string

// The outcomes of a rule.
const (
	// Passed: the rule ran and had no objection and nothing to change.
	Passed Outcome = "passed"
	// Changed: the rule changed the object.
	Changed Outcome = "changed"
	// Rejected: the rule refused the request.
	Rejected Outcome = "rejected"
	// Failed: the rule came to no result; Err says why.
	Failed Outcome = "failed"
	// WouldDeny: the rule would have denied the request, but its policy is in Audit mode or the
	// user is protected.
	WouldDeny Outcome = "wouldDeny"
)
