// Package api holds what users write: the kinds, with one folder for each group and version, and
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
	// Duplicate are the paths of fields that are written more than once, sorted. The last one is
	// used.
	Duplicate []string
	// Locate returns the position of a field; nil if the policy did not come from a file. An absent
	// field has the position of its closest parent that exists. Of the text of a field it returns
	// the position of a line and a column, which count from 1; they are 0 for the field itself.
	Locate func(field string, line, column int) Position
	// Proof is what is known about the right of the writer. Policies in files need no proof.
	Proof Proof
}

// A Proof says whether the writer of a policy is known to have had the right to write it.
type Proof struct {
	State ProofState
	// Why is the reason why that is not known; empty if it is known.
	Why string
}

// A ProofState is the result of checking a proof.
type ProofState string

// The states of proofs.
const (
	// NoProofNeeded is the state of policies in files, and of kinds for which the right to write
	// policies of the kind is sufficient.
	NoProofNeeded ProofState = ""
	// Proven: the writer had the right when the policy was written.
	Proven ProofState = "Proven"
	// Recorded: the policy is older than proofs, and stays in force.
	Recorded ProofState = "Recorded"
	// Unproven: nothing is known about the right. Only the denials of such a policy are in force.
	Unproven ProofState = "Unproven"
)

// A Position is a place in a file. The zero Position is unknown.
type Position struct {
	File string
	// Line and Column count from 1, and are 0 if they are not known. Column is known only of a
	// place in a text.
	Line, Column int
}

// Position returns the position of a field of the policy, such as
// spec.overrideRules[0].overriders.cue; the empty field is the policy itself.
func (p *Policy) Position(field string) Position { return p.PositionIn(field, 0, 0) }

// PositionIn returns the position of a line and a column in the text of a field. They count from 1;
// columns are characters. If they cannot be found in the file, it is the position of the field.
func (p *Policy) PositionIn(field string, line, column int) Position {
	if p.Locate == nil {
		return Position{}
	}
	return p.Locate(field, line, column)
}
