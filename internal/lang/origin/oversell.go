package origin

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/quantity"
	"github.com/usher-dev/usher/internal/rule"
)

// A factor is the multiplier of a quantity of a container's resources.
type factor struct {
	list string // requests or limits
	name string // of the resource
	by   float64
}

// oversellStep multiplies quantities that the container has. Those it does not have, and
// those that are zero, stay as they are; so do resources other than cpu, memory, storage
// and ephemeral-storage.
func oversellStep(e *v1alpha1.OverrideRuleOrigin) (step, *flaw) {
	if e.Operation != v1alpha1.OperatorReplace {
		return nil, unsupported(e, "use replace")
	}
	factors, bad := readFactors(e.ResourcesOversell)
	if bad != nil {
		return nil, bad
	}
	t := inContainer(e.ContainerCount)
	return func(d *draft) error {
		path, value, err := t(d)
		if err != nil {
			return err
		}
		if err := d.hasContainer(e.ContainerCount); err != nil {
			return err
		}
		now, ok := value.(map[string]any)
		if !ok && value != nil {
			return fmt.Errorf("read %s: it is not a map", path)
		}
		next, err := oversell(now, factors)
		if err != nil {
			return fmt.Errorf("oversell %s: %w", path, err)
		}
		d.set(path, next)
		return nil
	}, nil
}

func (d *draft) hasContainer(index int) error {
	spec, _, err := d.podSpec()
	if err != nil {
		return err
	}
	containers, _ := spec["containers"].([]any)
	if index < 0 || index >= len(containers) {
		return fmt.Errorf("containerCount %d is out of range: there are %d containers, counted from 0", index, len(containers))
	}
	return nil
}

// readFactors returns the factors in stable order.
func readFactors(lists map[v1alpha1.ResourceType]map[corev1.ResourceName]v1alpha1.Float64) ([]factor, *flaw) {
	var factors []factor
	for _, list := range sortedKeys(lists) {
		for _, name := range sortedKeys(lists[list]) {
			text := string(lists[list][name])
			by, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(by) || math.IsInf(by, 0) {
				return nil, &flaw{
					severity: rule.Error,
					field:    fmt.Sprintf("resourcesOversell.%s.%s", list, name),
					what:     fmt.Sprintf("the factor %q is not a number", text),
					do:       `write a decimal number between 0 and 1, such as "0.5"`,
				}
			}
			factors = append(factors, factor{list: string(list), name: string(name), by: by})
		}
	}
	return factors, nil
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// oversell returns the resources with every factor applied. Quantities come out in
// canonical form and empty lists are left out, as Kubernetes writes them.
func oversell(now map[string]any, factors []factor) (map[string]any, error) {
	next := make(map[string]any, len(now))
	maps.Copy(next, now)
	for _, list := range []string{"requests", "limits"} {
		quantities, err := readQuantities(now[list])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", list, err)
		}
		if len(quantities) == 0 {
			delete(next, list)
			continue
		}
		for _, f := range factors {
			q, ok := quantities[f.name]
			if f.list != list || !ok || q.IsZero() {
				continue
			}
			if quantities[f.name], err = multiply(f.name, q, f.by); err != nil {
				return nil, fmt.Errorf("%s: %w", list, err)
			}
		}
		texts := make(map[string]any, len(quantities))
		for name, q := range quantities {
			texts[name] = q.String()
		}
		next[list] = texts
	}
	return next, nil
}

func readQuantities(value any) (map[string]resource.Quantity, error) {
	list, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("it is not a map")
	}
	quantities := make(map[string]resource.Quantity, len(list))
	for name, value := range list {
		var text string
		switch v := value.(type) {
		case string:
			text = v
		case int64:
			text = strconv.FormatInt(v, 10)
		case float64:
			text = strconv.FormatFloat(v, 'g', -1, 64)
		}
		if !quantity.Parses(text) {
			return nil, fmt.Errorf("%s: %.30q: a quantity has at most 1000 digits, and an exponent of at most 1000", name, text)
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, text, err)
		}
		quantities[name] = q
	}
	return quantities, nil
}

// multiply drops fractions of a milli of cpu, and of a byte.
func multiply(name string, q resource.Quantity, by float64) (resource.Quantity, error) {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		n, err := truncate(float64(q.MilliValue()) * by)
		return *resource.NewMilliQuantity(n, resource.DecimalSI), err
	case corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage:
		n, err := truncate(float64(q.Value()) * by)
		return *resource.NewQuantity(n, resource.BinarySI), err
	}
	return q, nil
}

func truncate(f float64) (int64, error) {
	if f >= math.MaxInt64 || f <= math.MinInt64 {
		return 0, fmt.Errorf("multiply quantity: %g is too large", f)
	}
	return int64(f), nil
}
