package usher

import "time"

// A Snapshot is the state of the policies in force, in numbers.
type Snapshot struct {
	// Generation counts the snapshots of this process; Since is when this one came into force.
	Generation int64
	Since      time.Time
	// Policies is how many policies there are, by kind.
	Policies map[string]int
	// Known is how many policies API servers enforce themselves, by kind.
	Known map[string]int
	// InForce are the policies that have rules: metrics of others end. Repetitions do not matter.
	InForce []PolicyRef
	// Pending is the number of policies that are not compiled yet; Surplus is the number of
	// policies that are not in force because their namespace has too many.
	Pending, Surplus int
	// Suspended is how many policies decide nothing, because their writers say so, by kind.
	Suspended map[string]int
	// Rules is how many rules are in force.
	Rules int
	// Problems is how many problems there are, by severity.
	Problems map[string]int
	// Proofs is how many policies need a proof, by what theirs is worth.
	Proofs map[string]int
	// SourceErrors is how much could not be read as a policy.
	SourceErrors int
}
