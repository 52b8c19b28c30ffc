package rule

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrUnreached is in the error of a rule that was not run, since the time of the request was over before.
var ErrUnreached = errors.New("not reached in time")

// A Failure says that a rule fails in service. Values of objects are not in it. Replicas tell it
// to each other as JSON.
type Failure struct {
	// UID and Generation are those of the version of the policy that is in force.
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// Rule is the one that failed last, Error why, and Example is about what: an operation, a
	// kind, a namespace and a name. A failure that was ignored is told only if no other was.
	Rule string `json:"rule"`
	// Part is the part of the rule that failed, if that is known, such as spec.validations[0] (label).
	Part    string `json:"part,omitempty"`
	Error   string `json:"error"`
	Example string `json:"example"`
	// Count is how often rules of the policy have failed from Since to Last. It is 0 if it was the version before that
	// failed: Last is then when a request met this one first, and zero until that.
	Count int64     `json:"count"`
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Ignored says that it had no effect, since the failure policy is Ignore.
	Ignored bool `json:"ignored,omitempty"`
}
