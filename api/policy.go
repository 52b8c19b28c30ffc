// Package api holds what users write: the kinds, one folder a group and version, and
// [Policy], a policy as its source found it.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An Object is a policy of any kind, such as *v1alpha1.ClusterOverridePolicy.
type Object interface {
	metav1.Object
	runtime.Object
}

// A Policy is a policy as its source found it. It is immutable.
type Policy struct {
	Object Object
	// Unknown are the paths of fields that the kind does not have, sorted.
	Unknown []string
	// Duplicate are the paths of fields that are written more than once, sorted. The last
	// one counts.
	Duplicate []string
	// Locate tells where a field stands; nil if the policy did not come from a file. A
	// field that is not written down is located at the closest parent that is.
	Locate func(field string) Position
	// Proof is what is known of the right of the writer. Policies in files need none.
	Proof Proof
}

// A Proof is what is known of whether the writer of a policy had the right to write it.
type Proof struct {
	State ProofState
	// Why says why it is not known, unless it is.
	Why string
}

// A ProofState is what a [Proof] amounts to.
type ProofState string

// The states of proofs.
const (
	// NoProofNeeded is that of policies in files, and of kinds for which the right to write
	// policies of the kind is enough.
	NoProofNeeded ProofState = ""
	// Proven: the writer was asked about, and had the right.
	Proven ProofState = "Proven"
	// Recorded: the policy is from before there were proofs, and stays in force.
	Recorded ProofState = "Recorded"
	// Unproven: nothing is known. Only what such a policy denies counts.
	Unproven ProofState = "Unproven"
)

// A Position is a place in a file. The zero Position is nowhere.
type Position struct {
	File string
	// Line counts from 1; 0 if it is not known.
	Line int
}

// Position tells where a field of the policy stands, such as
// spec.overrideRules[0].overriders.cue; the empty field is the policy itself.
func (p *Policy) Position(field string) Position {
	if p.Locate == nil {
		return Position{}
	}
	return p.Locate(field)
}
