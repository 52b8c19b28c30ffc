package usher

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/usher-dev/usher/internal/jsontree"
)

// A Verdict is the answer of a [Decider] to a request.
type Verdict string

// The verdicts. NoOpinion is the zero value; admission treats it as Allow.
const (
	NoOpinion Verdict = ""
	Allow     Verdict = "allow"
	Deny      Verdict = "deny"
)

// A Decision answers one [Request]. The zero value has no opinion: admission lets the request pass, and at an
// authorizer the next one decides. Return an error if there is no decision.
type Decision struct {
	Verdict Verdict

	// Code is the HTTP status of a denial. If it is 0, the door chooses one (the API server turns
	// it into 400). A request that could not be decided because a rule failed has 500.
	Code int32
	// Reason is the machine-readable reason of a denial (a metav1.StatusReason, for admission);
	// Message is one sentence for the user who made the request. If a rule rejects the request it is the
	// message of the policy, without its name, which doors add; if a rule fails it names the policy.
	Reason  string
	Message string
	// Fields are the errors by field of a Decider in Go, as from [Validated]. kubectl shows them line by line if
	// the reason is Invalid. Message says all of it, too. Policies leave it empty: the fields that they reject are
	// those of the Checks in Findings, and doors send both.
	Fields field.ErrorList

	// Patch changes the object, in order. Only Mutate decisions carry one.
	Patch Patch
	// Warnings are shown to the user who made the request, also if it is allowed.
	Warnings []string
	// Audit is added to the API server's audit log.
	Audit map[string]string

	// Findings are the results of the rules that ran, in evaluation order.
	Findings []Finding
}

// Allowed returns a decision that lets the request pass unchanged.
func Allowed() Decision { return Decision{Verdict: Allow} }

// Denied returns a decision that denies the request with a message.
func Denied(format string, args ...any) Decision {
	return Decision{Verdict: Deny, Message: fmt.Sprintf(format, args...)}
}

// Validated returns a decision that allows the request if there are no errors, and otherwise denies
// it with the reason Invalid, as an API server does.
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

// Patched returns a decision that allows the request with changes.
func Patched(ops ...PatchOp) Decision { return Decision{Verdict: Allow, Patch: ops} }

// A Patch is a list of JSON patch operations (RFC 6902), applied in order, all or none.
type Patch []PatchOp

// A PatchOp is one operation of a [Patch].
type PatchOp struct {
	// Op is add, remove, replace, test, copy or move.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// From is the JSON pointer to the source of copy and move; other operations have none.
	From string `json:"from,omitempty"`
	// Value is a JSON value as [Object.Tree] describes; remove, copy and move have none. It is
	// shared: do not change it.
	Value any `json:"value"`
}

// Pointer returns the JSON pointer (RFC 6901) to the value at keys, for the path of a [PatchOp]. It
// escapes slashes, which keys of labels can have.
func Pointer(keys ...string) string {
	length := len(keys)
	for _, key := range keys {
		length += len(key)
	}
	var b strings.Builder
	b.Grow(length)
	for _, key := range keys {
		b.WriteByte('/')
		if strings.ContainsAny(key, "~/") {
			_, _ = pointerEscapes.WriteString(&b, key)
		} else {
			b.WriteString(key)
		}
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// MarshalJSON writes a null value explicitly: an add without a value is invalid.
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

// A Finding is the result of one rule for one request.
type Finding struct {
	Policy PolicyRef `json:"policy"`
	// Written says that Policy is the one that is being written, and that policy admission says
	// this about it: the policy itself decided nothing.
	Written bool `json:"written,omitempty"`
	// Rule is the rule's place in its policy, such as spec.validateRules[0].
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// PodOf names the workload, such as Deployment shop/web, if the rule was run on the pod that it
	// would make.
	PodOf string `json:"podOf,omitempty"`
	// Message is the reason of a rejection, or of a rule that was skipped. It may be empty. The message of the decision can be
	// empty where this one is not: as kinitiras has it, affectMode allow rejects without one.
	Message string `json:"message,omitempty"`
	// Condition is the name of the match condition that is false, if that is why the rule was skipped.
	Condition string `json:"-"`
	// Err is set when the rule failed. Ignored reports that the failure policy allowed the request
	// nevertheless.
	Err     error `json:"-"`
	Ignored bool  `json:"ignored,omitempty"`
	// Checks are the parts of the rule that had something to say.
	Checks []Check `json:"checks,omitempty"`
	// Patch is what this rule changed.
	Patch Patch         `json:"patch,omitempty"`
	Took  time.Duration `json:"took"`
	// Confidential reports that the rule read an object that holds credentials, such as a Secret:
	// Message, Err and Patch may repeat them. Users get the message as the policy's author wrote
	// it; logs and explanations omit all three.
	Confidential bool `json:"confidential,omitempty"`
	// Exemptions are those because of which the rule did not do all that it would have done. The
	// outcome is Exempted if it did nothing; Message and Checks then say what it would have said.
	Exemptions []Exemption `json:"exemptions,omitempty"`
	// NotExempt are exemptions from the policy that are not for the request.
	NotExempt []NotExempt `json:"notExempt,omitempty"`
}

// An Exemption is a policy exemption that applied to a request.
type Exemption struct {
	PolicyRef `json:",inline"`

	// Reason is why the exemption is there, Owner whom to ask about it, and ExpiresAt when it ends.
	Reason    string    `json:"reason"`
	Owner     string    `json:"owner"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Checks are the parts of the rule that had something to say, and have nothing with the exemption; a rule without parts
	// is one itself. A rule that would have changed the object, and no more, has none.
	Checks []Check `json:"-"`
}

// A NotExempt is a policy exemption that did not apply to a request.
type NotExempt struct {
	PolicyRef `json:",inline"`

	// Why has a reason for each of its clauses that excludes the request, such as "it expired 2h
	// ago". With one reason, and not Elsewhere, the exemption nearly applied.
	Why []string `json:"why"`
	// Elsewhere says that a reason is that the exemption is for other objects.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Failure returns why the rule has no result, or the first of its parts that has none; nil if all
// have one.
func (f *Finding) Failure() error {
	if f.Err != nil {
		return f.Err
	}
	for i := range f.Checks {
		if f.Checks[i].Failed {
			return errors.New(f.Checks[i].Message)
		}
	}
	return nil
}

// Denies reports whether the rule is a reason to deny the request: it rejects the request, or fails and its
// failure policy does not ignore that.
func (f *Finding) Denies() bool {
	return f.Outcome == Rejected || f.Outcome == Failed && !f.Ignored
}

// A Check is what one part of a rule said, such as one validation of an admission policy.
type Check struct {
	// Name is the place of the part in its policy, such as spec.validations[0].
	Name string `json:"name"`
	// Validation is the name that the policy gives the part; empty if it has none.
	Validation string `json:"validation,omitempty"`
	Message    string `json:"message"`
	// MessageError says why the message that the policy computes could not be made; Message then is another. Empty if
	// it could.
	MessageError string `json:"messageError,omitempty"`
	// Field is the field of the object that the part is about, such as spec.hostNetwork; empty if
	// that is not known.
	Field string `json:"field,omitempty"`
	// Severity is how serious it is, for reports; empty if the policy does not say.
	Severity Severity `json:"severity,omitempty"`
	// Actions are what follows from it.
	Actions []Action `json:"actions,omitempty"`
	// Failed says that the part came to no result; Message then is the error.
	Failed bool `json:"failed,omitempty"`
	// PodsDenied says that the pods which the object makes would be denied, although the object is not.
	PodsDenied bool `json:"podsDenied,omitempty"`
}

// A Severity is how serious a [Check] is: critical, high, medium, low or info.
type Severity string

// An Action is what follows from a [Check].
type Action string

// The actions, as in the validationActions of a ValidatingAdmissionPolicyBinding.
const (
	ActDeny  Action = "Deny"
	ActWarn  Action = "Warn"
	ActAudit Action = "Audit"
)

// An Outcome is the summary of a [Finding] in one word.
type Outcome string

// The outcomes of a rule.
const (
	// Passed: the rule ran, denied nothing and changed nothing. What it warned of is in Checks.
	Passed Outcome = "passed"
	// Skipped: the rule turned out not to be for the request; Message says why.
	Skipped Outcome = "skipped"
	// Changed: the rule changed the object.
	Changed Outcome = "changed"
	// Rejected: the rule denied the request.
	Rejected Outcome = "rejected"
	// Failed: the rule has no result; Err says why.
	Failed Outcome = "failed"
	// WouldDeny: the rule would have denied the request, but its policy is in Audit mode, or the
	// user is protected.
	WouldDeny Outcome = "wouldDeny"
	// Exempted: the rule would have changed or denied the request, and a policy exemption applied.
	Exempted Outcome = "exempted"
)
