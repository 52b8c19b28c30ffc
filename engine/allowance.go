package engine

import "github.com/usher-dev/usher/rule"

// allowance returns what all policies of the namespace of a rule may take together, also for the pod that a
// workload would make; nil for a policy of the cluster.
func (d *evaluation) allowance(r *rule.Rule) *rule.Allowance {
	namespace := r.Policy.Namespace
	if namespace == "" {
		return nil
	}
	request := d
	for request.of != nil {
		request = request.of
	}
	known := request.allowances[namespace]
	if known == nil {
		if request.allowances == nil {
			request.allowances = map[string]*rule.Allowance{}
		}
		known = rule.NewAllowance(rule.NamespaceTime, rule.NamespaceMemory)
		request.allowances[namespace] = known
	}
	return known
}
