package allowance

import (
	"strconv"
	"strings"
	"time"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// CountedTime is the processor time that closures may take for an expression whose cost is then counted as API servers
// do: nearly all that cost no more than these allow take less.
const CountedTime = 200 * time.Millisecond

// exceeded are parts of the errors of programs that take too much, each with the limit if the error does not name it.
var exceeded = []struct{ says, limit string }{
	{"actual cost limit exceeded", "an expression may cost " + strconv.Itoa(celconfig.PerCallLimit) + ", as in API servers, and take " + CountedTime.String() + " of processor time until that is counted: "},
	{"running out of cost budget", "the expressions of a policy may cost " + strconv.Itoa(celconfig.RuntimeCELCostBudget) + " in all, its matchConditions " +
		strconv.Itoa(celconfig.RuntimeCELCostBudgetMatchConditions) + ", as in API servers: "},
	{"takes too long: it needs at least ", ""},
	{"takes too much memory: it needs at least ", ""},
	{"took too long: overran its time of ", ""},
}

// Advice returns how a program can take less, and which limit it exceeded if the text of its error does not say
// that; empty if it failed because of something else.
func Advice(failure string) string {
	// An expression that the error quotes may say anything.
	if at := strings.LastIndex(failure, "' resulted in error: "); at >= 0 {
		failure = failure[at:]
	}
	for _, e := range exceeded {
		if strings.Contains(failure, e.says) {
			return e.limit + "loop over less: test size() before loops, and nest fewer of them, such as all() and exists()"
		}
	}
	return ""
}
