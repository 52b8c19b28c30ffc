package engine

import (
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/rule"
)

// A tenant is a namespace whose policies a request meets.
type tenant struct {
	allowance *rule.Allowance
	turn      *overrun.Turn
}

// tenant returns what all policies of the namespace of a rule may take together, also for the pod that a
// workload would make, and how they take turns with others; nothing for a policy of the cluster.
func (d *evaluation) tenant(r *rule.Rule) tenant {
	namespace := r.Policy.Namespace
	if namespace == "" {
		return tenant{}
	}
	request := d
	for request.of != nil {
		request = request.of
	}
	known, ok := request.tenants[namespace]
	if !ok {
		if request.tenants == nil {
			request.tenants = map[string]tenant{}
		}
		known.turn = d.engine.options.Overruns.Turn(namespace)
		known.allowance = rule.NewAllowance(rule.NamespaceTime, rule.NamespaceMemory).Paced(known.turn)
		request.tenants[namespace] = known
	}
	return known
}
