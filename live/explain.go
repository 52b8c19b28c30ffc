package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/explain"
)

// Explain explains what Decide has decided about a request of admission: for each rule, whether it matched and by
// which clause, what its expressions read and what their values were, and what it said and changed. The result is
// JSON, as in the phases of usher explain -o json. Values of objects that hold credentials, such as Secrets, are
// withheld.
//
// It evaluates the expressions again, which takes several times as long as to decide, by the policies that are in
// force now, and resolves the facts that they need once more.
func (l *Live) Explain(ctx context.Context, r *usher.Request, d usher.Decision) ([]byte, error) {
	if r.Phase == usher.Authorize {
		return nil, errors.New("explain decision: expected one about a request of admission")
	}
	if err := complete(r); err != nil {
		return nil, fmt.Errorf("explain decision: %w", err)
	}
	told, err := explain.Of(ctx, l.current.RulesAt(r.Entry), r, d, explain.Options{Facts: l.facts})
	if err != nil {
		return nil, fmt.Errorf("explain decision: %w", err)
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("encode explanation: %w", err)
	}
	return text, nil
}
