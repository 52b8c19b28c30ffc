package rule

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
)

// A CandidateState is what a process has counted of one policy candidate.
type CandidateState struct {
	Ref usher.PolicyRef
	// UID and Generation are those of the version that is evaluated. A candidate from a file has no UID.
	UID        types.UID
	Generation int64
	// Compared are the policies in force that it affects, and Since is when it began to be compared with
	// them.
	Compared []Compared
	Since    time.Time
	Counts   CandidateCounts
	// NotEffective is why it makes no difference to any request; empty if it may.
	NotEffective string
}

// A Compared is a version of a policy in force; from a file it has no UID.
type Compared struct {
	Policy     usher.PolicyRef
	UID        types.UID
	Generation int64
}

// CandidateCounts are numbers of decisions; see the status of candidates.
type CandidateCounts struct {
	Seen, Skipped, NewlyDenied, NewlyAllowed, Warned, Changed, Errors, NoOpinion int64
}

// Add returns the sums of two.
func (c CandidateCounts) Add(other CandidateCounts) CandidateCounts {
	a, b := c.List(), other.List()
	for i := range a {
		*a[i] += *b[i]
	}
	return c
}

// Less returns the differences of two, none below 0.
func (c CandidateCounts) Less(other CandidateCounts) CandidateCounts {
	a, b := c.List(), other.List()
	for i := range a {
		*a[i] = max(*a[i]-*b[i], 0)
	}
	return c
}

// List returns the numbers, in the order of the fields.
func (c *CandidateCounts) List() []*int64 {
	return []*int64{&c.Seen, &c.Skipped, &c.NewlyDenied, &c.NewlyAllowed, &c.Warned, &c.Changed, &c.Errors, &c.NoOpinion}
}

// A CandidateDifference is a decision of a candidate that differs from that of the policies in force.
type CandidateDifference struct {
	Candidate usher.PolicyRef
	Request   *usher.Request
	// At is when the request was decided, and Decision what the candidate would decide. Its findings are those of
	// policies that it affects.
	At       time.Time
	Decision usher.Decision
	// Kinds are words of [Differences].
	Kinds []string
}

// Differences returns the words for how decisions differ, the worst first. Of requests to authorize, allowed
// means that they were not allowed, and noOpinion that they were allowed or denied.
func Differences() []string {
	return []string{"failing", "denied", "changed", "warned", "allowed", "noOpinion"}
}

// A CandidateCoverage has the requests that candidates are for.
type CandidateCoverage struct {
	// Cluster is for those that are for all namespaces, Namespaced for those of Namespaces, sorted.
	Cluster, Namespaced Coverage
	Namespaces          []string
}

// Covers is as that of [Coverage].
func (c *CandidateCoverage) Covers(r *usher.Request) bool {
	if c == nil {
		return false
	}
	_, own := slices.BinarySearch(c.Namespaces, r.Namespace)
	return c.Cluster.Covers(r) || own && c.Namespaced.Covers(r)
}
