package engine

import "github.com/usher-dev/usher/rule"

// allowance returns what a rule may take: one of its own, in the frame, or what all policies of its
// namespace may take together, also for the pod that a workload would make.
func (d *evaluation) allowance(r *rule.Rule, f *frame) *rule.Allowance {
	namespace := r.Policy.Namespace
	if namespace == "" {
		f.allowance.Grant(rule.PolicyTime, rule.PolicyMemory)
		return &f.allowance
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
