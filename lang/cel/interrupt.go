package cel

import (
	"context"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// An Interrupt stops loops when a context is done; the zero Interrupt never does. Activations have
// it resolve names that they do not know. It is not safe for concurrent use.
type Interrupt struct {
	Context context.Context //nolint:containedctx // an Interrupt is as short-lived as a call
	asked   uint
}

// ResolveName resolves the name by which loops ask whether to stop.
func (i *Interrupt) ResolveName(name string) (any, bool) {
	if name != "#interrupted" || i.Context == nil {
		return nil, false
	}
	if i.asked++; i.asked%celconfig.CheckFrequency != 0 {
		return nil, false
	}
	select {
	case <-i.Context.Done():
		return true, true
	default:
		return nil, false
	}
}
