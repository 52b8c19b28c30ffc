package origin

import (
	"encoding/json"
	"fmt"
	"maps"

	k8sjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// unsupported is a warning only, although the entry fails on every request: such a policy
// has always been accepted.
func unsupported(e *v1alpha1.OverrideRuleOrigin, do string) *flaw {
	return &flaw{
		severity: rule.Warning,
		field:    "operation",
		what:     fmt.Sprintf("unsupported operator type error: %s of %s is not possible, and fails on every request", operation(e), e.Type),
		do:       do,
	}
}

func operation(e *v1alpha1.OverrideRuleOrigin) string {
	if e.Operation == "" {
		return "no operation"
	}
	return string(e.Operation)
}

// replaceStep writes the value, replacing any other.
func replaceStep(e *v1alpha1.OverrideRuleOrigin, t target, value any) (step, *flaw) {
	if e.Operation != v1alpha1.OperatorReplace {
		return nil, unsupported(e, "use replace")
	}
	tree, err := toTree(value)
	if err != nil {
		return nil, &flaw{severity: rule.Error, field: string(e.Type), what: "the value is no JSON: " + err.Error(), do: "correct the value"}
	}
	return func(d *draft) error {
		path, _, err := t(d)
		if err != nil {
			return err
		}
		d.set(path, tree)
		return nil
	}, nil
}

// mapStep merges into a map of strings, removes keys from it, or replaces it.
func mapStep(e *v1alpha1.OverrideRuleOrigin, t target, given map[string]string) (step, *flaw) {
	var change func(now map[string]any) map[string]any
	tree := stringTree(given)
	switch {
	case e.Operation == v1alpha1.OperatorRemove:
		change = func(now map[string]any) map[string]any { return without(now, tree) }
	case e.Operation != v1alpha1.OperatorAdd && e.Operation != v1alpha1.OperatorReplace:
		return nil, unsupported(e, "use add, replace or remove")
	case e.Replace:
		change = func(map[string]any) map[string]any { return tree }
	default:
		change = func(now map[string]any) map[string]any { return merged(now, tree) }
	}
	return func(d *draft) error {
		path, value, err := t(d)
		if err != nil {
			return err
		}
		now, ok := value.(map[string]any)
		if !ok && value != nil {
			return fmt.Errorf("read %s: it is not a map", path)
		}
		// A nil map is an absent value, and written as null.
		if next := change(now); next != nil {
			d.set(path, next)
		} else {
			d.set(path, nil)
		}
		return nil
	}, nil
}

func merged(now, given map[string]any) map[string]any {
	if len(given) == 0 {
		return now
	}
	next := make(map[string]any, len(now)+len(given))
	maps.Copy(next, now)
	maps.Copy(next, given)
	return next
}

func without(now, given map[string]any) map[string]any {
	next := maps.Clone(now)
	for key := range given {
		delete(next, key)
	}
	return next
}

func stringTree(m map[string]string) map[string]any {
	if m == nil {
		return nil
	}
	tree := make(map[string]any, len(m))
	for key, value := range m {
		tree[key] = value
	}
	return tree
}

// tolerationStep puts the given tolerations first, removes equal ones, or replaces the list.
func tolerationStep(e *v1alpha1.OverrideRuleOrigin) (step, *flaw) {
	add := e.Operation == v1alpha1.OperatorAdd || e.Operation == v1alpha1.OperatorReplace
	if !add && e.Operation != v1alpha1.OperatorRemove {
		return nil, unsupported(e, "use add, replace or remove")
	}
	tree, err := toTree(e.Tolerations)
	if err != nil {
		return nil, &flaw{severity: rule.Error, field: "tolerations", what: "the value is no JSON: " + err.Error(), do: "correct the value"}
	}
	given, _ := tree.([]any)
	keys := make(map[tolerationKey]bool, len(given))
	for _, toleration := range given {
		keys[keyOf(toleration)] = true
	}
	t := inPod("tolerations")
	return func(d *draft) error {
		path, value, err := t(d)
		if err != nil {
			return err
		}
		now, ok := value.([]any)
		if !ok && value != nil {
			return fmt.Errorf("read %s: it is not a list", path)
		}
		var next []any
		if add {
			next = append(next, given...)
		}
		if !add || !e.Replace {
			for _, toleration := range now {
				if !keys[keyOf(toleration)] {
					next = append(next, toleration)
				}
			}
		}
		switch {
		case next != nil:
			d.set(path, next)
		case add && given != nil:
			d.set(path, []any{})
		default:
			d.set(path, nil)
		}
		return nil
	}, nil
}

// A tolerationKey is what is compared of two tolerations: everything but the seconds.
type tolerationKey struct{ key, operator, value, effect string }

func keyOf(toleration any) tolerationKey {
	t, _ := toleration.(map[string]any)
	text := func(name string) string {
		s, _ := t[name].(string)
		return s
	}
	return tolerationKey{key: text("key"), operator: text("operator"), value: text("value"), effect: text("effect")}
}

// toTree returns a Kubernetes value as the JSON tree that it is on the wire.
func toTree(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := k8sjson.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}
