package candidate

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/overrun"
)

// Overdue reports whether a candidate that affects a policy waits for evaluations that have not ended.
func Overdue(affects usher.PolicyRef, late []overrun.Overrun) bool {
	return (&compared{affected: map[usher.PolicyRef]bool{affects: true}}).overdue(late)
}
