package rule

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
)

// LongestExemption is how far ahead exemptions may end when they are written, unless the operator says
// otherwise.
const LongestExemption = 90 * 24 * time.Hour

// An Exemption exempts requests from policies until it expires, compiled. It is immutable.
type Exemption struct {
	// Ref is its own. One with a namespace is for requests for objects of that namespace alone.
	Ref usher.PolicyRef
	// Policies are those from which it exempts.
	Policies []ExemptPolicy
	// Applies have the programs that tell which requests it is for: each skips others, the cheapest
	// first. Their Checks are the reasons, one for each clause.
	Applies []Rule
	// Resources are those that it names, as they are written; nil if it is for all.
	Resources *ResourceMatch
	// Images, unless empty, are those of the containers that are exempt; the rest of the object is
	// still validated.
	Images []Pattern
	// Action is what follows when a request is exempt.
	Action ExemptionAction
	// Reason, Owner and Expires tell why it is there, whom to ask, and when it ends.
	Reason, Owner string
	Expires       time.Time
}

// ExemptionSubjects is the name of the check that excludes the user of a request from an exemption. Other
// checks of Applies say which objects it is for.
const ExemptionSubjects = "spec.subjects"

// An ExemptionAction is what follows when a request is exempt. There is an audit annotation in any
// case.
type ExemptionAction string

// The actions: nothing, a warning to the user, the message of the denial in the audit log.
const (
	ExemptSkip  ExemptionAction = "Skip"
	ExemptWarn  ExemptionAction = "Warn"
	ExemptAudit ExemptionAction = "Audit"
)

// An ExemptPolicy names policies of one kind, in whatever namespace they are.
type ExemptPolicy struct {
	Kind string
	Name Pattern
	// Validations are those from which the exemption exempts; none means the whole policy.
	Validations Validations
}

// For returns from what of a policy x exempts, and false if from nothing. No validations mean the
// whole policy.
func (x *Exemption) For(policy usher.PolicyRef) (Validations, bool) {
	var some Validations
	for i := range x.Policies {
		p := &x.Policies[i]
		if p.Kind != policy.Kind || !p.Name.Matches(policy.Name) {
			continue
		}
		if len(p.Validations) == 0 {
			return nil, true
		}
		some = append(some, p.Validations...)
	}
	return some, len(some) > 0
}

// An Exempting is an exemption as it is for one rule.
type Exempting struct {
	*Exemption

	// Validations are those from which it exempts; none means the whole rule.
	Validations Validations
}

// Validations are names of validations, or their places in policies, such as spec.validations[0].
type Validations []string

// Has reports whether a validation is among them. The name may be empty.
func (v Validations) Has(name, place string) bool {
	return len(v) > 0 && (name != "" && slices.Contains(v, name) || slices.Contains(v, place))
}

// Covers reports whether the validation of a check is among them.
func (v Validations) Covers(c *usher.Check) bool { return v.Has(c.Validation, c.Name) }

// A Pattern is a text that may contain one *, which matches any text.
type Pattern string

// Matches reports whether the pattern matches text.
func (p Pattern) Matches(text string) bool {
	prefix, suffix, star := strings.Cut(string(p), "*")
	if !star {
		return text == prefix
	}
	return len(text) >= len(prefix)+len(suffix) && strings.HasPrefix(text, prefix) && strings.HasSuffix(text, suffix)
}

// Literal reports whether the pattern contains no *.
func (p Pattern) Literal() bool { return !strings.Contains(string(p), "*") }

// An ExemptionState is the state of one exemption of a cluster or of files. It is immutable.
type ExemptionState struct {
	Ref usher.PolicyRef
	// UID and Generation are those of the version in force. An exemption from a file has no UID.
	UID        types.UID
	Generation int64
	// Created is when it was created; zero if that is not known.
	Created time.Time
	// Expires is when it ends; zero if no version of it compiles.
	Expires time.Time
	// Uses is how many requests have been exempt since this process began to follow policies, and
	// LastUsed when one last was; zero if none was. Dry runs do not count.
	Uses     int64
	LastUsed time.Time
	// Problems are why it does not have the effect that it seems to have: it is expired, or refers
	// to what is not there.
	Problems []Problem
	// NotEffective is why no request is exempt, because of the policies to which it refers; empty if
	// it has an effect.
	NotEffective string
}
