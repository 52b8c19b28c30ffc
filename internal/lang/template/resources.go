package template

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// firstContainer is where the resources are that templates change.
var firstContainer = inPod("containers", 0, "resources")

// ensureResources plans the maps that changes of resources need; they are made in any case.
func (p *plan) ensureResources() {
	p.inPod = true
	p.steps = append(p.steps, ensure(firstContainer), ensure(firstContainer.at("requests")), ensure(firstContainer.at("limits")))
}

// resources plans changes of requests and limits of the first container.
func (p *plan) resources(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	p.ensureResources()
	if t.Resources == nil || len(t.Resources.Requests)+len(t.Resources.Limits) == 0 {
		return []rule.Problem{odd("resources", "no request and no limit is listed: the template does nothing but make empty ones", "list requests or limits")}
	}
	p.quantities(t.Operation, "requests", t.Resources.Requests)
	p.quantities(t.Operation, "limits", t.Resources.Limits)
	return nil
}

func (p *plan) quantities(operation v1alpha1.OverriderOperator, kind string, quantities corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		at := firstContainer.at(kind, string(name))
		if operation == v1alpha1.OperatorRemove {
			p.details = append(p.details, kind+"."+string(name))
			p.steps = append(p.steps, &edit{when: []guard{is(at, anything)}, op: "remove", at: at})
			continue
		}
		value := quantityText(quantities[name])
		p.details = append(p.details, kind+"."+string(name)+"="+value)
		p.steps = append(p.steps, &edit{op: "add", at: at, value: constant{value}})
	}
}

// quantityText returns a whole quantity as a plain integer, which is what kinitiras
// writes, and any other in its canonical form.
func quantityText(q resource.Quantity) string {
	whole := q.Value()
	if resource.NewQuantity(whole, resource.DecimalSI).Cmp(q) == 0 {
		return strconv.FormatInt(whole, 10)
	}
	return q.String()
}
