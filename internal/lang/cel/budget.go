package cel

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
)

// compileBudget is what compiling the expressions of one policy takes at most, in units of about a
// third of a microsecond.
const compileBudget = 3_000_000

// namespaceBudget is that for a policy of a namespace, which others than operators write. The largest
// policy of the library fits, the others take a tenth of it.
const namespaceBudget = compileBudget / 5

// What parts of compiling take, in these units.
const (
	// expressionEffort is that of an expression, however short: its program, and what is known of it.
	expressionEffort = 1000
	byteEffort       = 4
	nodeEffort       = 40
	// parameterEffort is that of a type parameter of which the checker makes a copy.
	parameterEffort = 0.5
	// patternEffort is that of a byte of a regular expression, and classEffort that of a Unicode class in
	// one, which has hundreds of ranges; instructionEffort is that of an instruction of its program.
	// They take memory, too.
	patternEffort     = 4
	classEffort       = 300
	instructionEffort = 6
)

// ErrTooLarge is the error of an expression that the compile budget is not enough for.
var ErrTooLarge = errors.New("expression too large")

// A Budget is what compiling the expressions of one policy may take together: their text, their
// syntax trees once macros are expanded, and their types. The zero Budget is that of one policy. It is
// not safe for concurrent use.
type Budget struct {
	// Context, unless nil, ends compiling.
	Context context.Context //nolint:containedctx // a Budget is as short-lived as a call
	// Namespace is that of the policy, empty for one of the cluster.
	Namespace string
	// before is what was spent before the expression at hand.
	spent, before float64
	// signatures are those of the functions that were called.
	signatures map[signatureKey]signature
	// variables are the weights of the types of the variables of the policy.
	variables map[string]float64
	heaviest  float64
}

// Variable says that expressions may read variables.NAME, of a type.
func (b *Budget) Variable(name string, t *types.Type) {
	weight := weightOf(t, new([]string))
	if b.variables == nil {
		b.variables = map[string]float64{}
	}
	b.variables[name], b.heaviest = weight, max(b.heaviest, weight)
}

type signatureKey struct {
	function *decls.FunctionDecl
	member   bool
}

// Spent returns how much of the budget of a policy of the cluster is spent: 1 is all of it.
func (b *Budget) Spent() float64 { return min(1, b.spent/compileBudget) }

func (b *Budget) limit() float64 {
	if b.Namespace != "" {
		return namespaceBudget
	}
	return compileBudget
}

// spend takes from the budget, before what it is taken for is done. The error is [ErrTooLarge], and
// nothing is left then.
func (b *Budget) spend(units float64, what string) error {
	if b.spent += units; b.spent <= b.limit() {
		return nil
	}
	if before := b.before / b.limit(); before >= 0.01 {
		what = fmt.Sprintf("%s, after expressions that take %.0f%% of what those of a policy may take together", what, 100*before)
	}
	return fmt.Errorf("%w: %s", ErrTooLarge, what)
}

// Done returns why no more is to be compiled: the end of the context, or [ErrTooLarge].
func (b *Budget) Done() error {
	switch {
	case b.Context != nil && b.Context.Err() != nil:
		return fmt.Errorf("not compiled in time: %w", b.Context.Err())
	case b.spent > b.limit():
		return fmt.Errorf("%w: there are others before it", ErrTooLarge)
	}
	return nil
}
