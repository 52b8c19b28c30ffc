package policies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/stall"
)

// Within does something with policies, on no rule of which it may spend more than the timeout. What
// says what it does; the error names the rule.
func Within[T any](ctx context.Context, timeout time.Duration, what string, do func(context.Context) (T, error)) (T, error) {
	value, err := stall.Within(ctx, timeout, do)
	if _, ok := errors.AsType[*stall.Error](err); ok {
		err = fmt.Errorf("%s: %w: make it simpler, or give it more time with --policy-timeout", what, err)
	}
	return value, err
}
