package rule

import (
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
)

// A State is the state of one policy. It is immutable.
type State struct {
	Policy usher.PolicyRef
	// UID and Generation are those of the newest version. A policy from a file has no UID, and the
	// generation in the file.
	UID        types.UID
	Generation int64
	// Compiled reports whether the newest version compiles, and Enforced whether a version
	// is in force: the newest if Compiled, else the last good one. EnforcedGeneration is
	// the generation of the one in force; 0 means the one before Generation.
	Compiled           bool
	Enforced           bool
	EnforcedGeneration int64
	// Pending: the newest version is not compiled yet. Unless an older one is in force, the policy
	// fails until then.
	Pending bool
	// Surplus: the policy is neither compiled nor in force, because its namespace has too many
	// policies.
	Surplus bool
	// Suspended says that the policy is not in force because its writer has suspended it, and who that
	// was; "" if it is not suspended.
	Suspended string
	// Action is what follows from the newest version, and Kinds is what it is for, in short.
	Action, Kinds string
	// NoSuchKind says of a policy none of whose kinds the cluster has, which these are; else "".
	NoSuchKind string
	// MatchesNothing says why no request for the kinds that the policy selects is one that it is for; "" if one is, or
	// if the cluster has none of these kinds.
	MatchesNothing string
	// Unserved says why nobody can ask this server for what the policy decides; "" if somebody can.
	Unserved string
	// Untried: it is not known yet whether NoSuchKind or MatchesNothing is so of the newest version.
	Untried bool
	// Problems are those of the newest version.
	Problems []Problem
	// Slow names a rule of the newest version that runs slowly, with the reason; "" if none does,
	// or if it does not compile.
	Slow string
	// NeedsProof reports whether the policy counts only if its writer is known to have had the
	// right to write it. Unproven is why that is not known, "" if it is.
	NeedsProof bool
	Unproven   string
	// Admission reports whether the policy is for admission, and so depends on API servers that
	// call the admission webhooks.
	Admission bool
}

// InForce returns the generation that is in force, or -1 if none is.
func (s *State) InForce() int64 {
	switch {
	case !s.Enforced:
		return -1
	case s.Compiled:
		return s.Generation
	case s.EnforcedGeneration > 0:
		return s.EnforcedGeneration
	}
	return s.Generation - 1
}
