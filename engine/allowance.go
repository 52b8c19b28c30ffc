package engine

import (
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/rule"
)

// share returns the share of the namespace of a rule, which is also that for the pod that a workload would
// make.
func (d *evaluation) share(r *rule.Rule) overrun.Share {
	request := d
	for request.of != nil {
		request = request.of
	}
	return request.shares.Of(d.engine.options.Overruns, r.Policy.Namespace)
}
