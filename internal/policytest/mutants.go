package policytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/printable"
)

// A policyMutant is a policy from which one part was left out, or that has another one instead.
type policyMutant struct {
	without, with string
	// policy is nil if the whole policy was left out.
	policy map[string]any
}

// maxMutated is how many values the mutants of a policy may have together: each is a copy.
const maxMutated = 10_000_000

// A mutator collects the mutants of a policy.
type mutator struct {
	policy map[string]any
	all    []policyMutant
	// size is how many values the policy has, once it is known.
	size int
	// err is set if there are more mutants than may be made.
	err error
}

// policyMutants are the mutants of an admission policy: without the policy, or without a rule, an
// operation, a selector, a clause of a selector, an overrider or a condition of CUE. A rule that
// validates also becomes one that rejects everything. For those of Kubernetes see admission, for object policies also object.
func policyMutants(policy map[string]any) ([]policyMutant, error) {
	m := &mutator{policy: policy, all: []policyMutant{{without: "the policy"}}}
	m.items("spec", "resourceSelectors")
	for i, selector := range m.list("spec", "resourceSelectors") {
		m.selector(selector, "spec", "resourceSelectors", i)
	}
	for _, rules := range []string{"overrideRules", "validateRules"} {
		m.items("spec", rules)
		for i, rule := range m.list("spec", rules) {
			m.rule(rule, "spec", rules, i)
		}
	}
	m.admission()
	m.object()
	return m.all, m.err
}

// selector leaves out the clauses of a selector; apiVersion and kind are not optional.
func (m *mutator) selector(selector map[string]any, path ...any) {
	for _, key := range []string{"name", "namespace"} {
		if selector[key] != nil {
			m.leave(append(slices.Clone(path), key)...)
		}
	}
	for _, of := range []string{"labelSelector", "fieldSelector"} {
		clauses, _ := selector[of].(map[string]any)
		m.clauses(clauses, append(slices.Clone(path), of)...)
	}
}

// clauses leaves out each clause of a selector.
func (m *mutator) clauses(selector map[string]any, path ...any) {
	for _, of := range []string{"matchLabels", "matchFields"} {
		pairs, _ := selector[of].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			m.leave(append(slices.Clone(path), of, key)...)
		}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for i := range expressions {
		m.leave(append(slices.Clone(path), "matchExpressions", i)...)
	}
}

func (m *mutator) rule(rule map[string]any, path ...any) {
	at := func(more ...any) []any { return append(slices.Clone(path), more...) }
	if rule["targetOperations"] != nil {
		m.items(at("targetOperations")...)
		m.leave(at("targetOperations")...)
	}
	if path[1] == "validateRules" {
		m.rejectAll(rule, path...)
		m.conditions(rule["cue"], at("cue")...)
		return
	}
	overriders, _ := rule["overriders"].(map[string]any)
	steps := 0
	for _, key := range []string{"plaintext", "cue", "template", "origin"} {
		if overriders[key] != nil {
			steps++
		}
	}
	for _, key := range []string{"plaintext", "cue", "template", "origin"} {
		if overriders[key] != nil && steps > 1 {
			m.leave(at("overriders", key)...)
		}
		m.items(at("overriders", key)...)
	}
	m.values(overriders, at("overriders")...)
	m.conditions(overriders["cue"], at("overriders", "cue")...)
}

// rejectAll makes a rule reject every request that it matches.
func (m *mutator) rejectAll(rule map[string]any, path ...any) {
	body := map[string]any{"cue": `validate: {valid: false, reason: "mutant"}`}
	if operations := rule["targetOperations"]; operations != nil {
		body["targetOperations"] = operations
	}
	m.change("the condition of "+fieldName(path), func(parent any, key any) {
		parent.([]any)[key.(int)] = body //nolint:forcetypeassert // Rules are in a list.
	}, path...)
}

// conditions leaves out the conditions of a program.
func (m *mutator) conditions(program any, path ...any) {
	source, _ := program.(string)
	for _, weaker := range cue.Weaken(source) {
		m.change(fmt.Sprintf("the condition %s of %s", weaker.Condition, fieldName(path)), func(parent any, key any) {
			parent.(map[string]any)[key.(string)] = weaker.Source //nolint:forcetypeassert // A program is a field of an object.
		}, path...)
	}
}

// values leaves out each of several values that a template or origin sets.
func (m *mutator) values(tree any, path ...any) {
	switch v := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clone(path), key)
			if several, ok := v[key].(map[string]any); ok && len(several) > 1 && slices.Contains([]string{"stringMap", "labels", "annotations", "nodeSelector"}, key) {
				for _, name := range slices.Sorted(maps.Keys(several)) {
					m.leave(append(slices.Clone(at), name)...)
				}
				continue
			}
			if key == "tolerations" {
				m.items(at...)
			}
			m.values(v[key], at...)
		}
	case []any:
		for i, item := range v {
			m.values(item, append(slices.Clone(path), i)...)
		}
	}
}

// items leaves out each item of a list that has several.
func (m *mutator) items(path ...any) {
	list, _ := lookupPath(m.policy, path).([]any)
	if len(list) < 2 {
		return
	}
	for i := range list {
		m.leave(append(slices.Clone(path), i)...)
	}
}

// leave leaves out what is at path.
func (m *mutator) leave(path ...any) {
	without := fieldName(path)
	if _, item := path[len(path)-1].(int); item {
		// An index says little of a text: which one is it?
		if value, ok := lookupPath(m.policy, path).(string); ok {
			without += ": " + printable.CutRunes(printable.Line(value), maxValue)
		}
	}
	m.change(without, nil, path...)
}

// maxValue is how many characters of a value a mutant names.
const maxValue = 60

// change adds the mutant in which set has changed what is at path, or removed it if set is nil.
func (m *mutator) change(without string, set func(parent any, key any), path ...any) {
	if m.size == 0 {
		m.size = countValues(m.policy)
	}
	if len(m.all)*m.size > maxMutated {
		m.err = fmt.Errorf("more than %d mutants of a policy with %d values: write a smaller policy", len(m.all), m.size)
		return
	}
	changed := runtime.DeepCopyJSON(m.policy)
	parent, key := lookupPath(changed, path[:len(path)-1]), path[len(path)-1]
	switch list, isList := parent.([]any); {
	case set != nil:
		set(parent, key)
	case isList:
		i, _ := key.(int)
		grandparent := lookupPath(changed, path[:len(path)-2]).(map[string]any) //nolint:forcetypeassert // Lists are in objects.
		grandparent[path[len(path)-2].(string)] = slices.Delete(list, i, i+1)   //nolint:forcetypeassert // So their key is a name.
	default:
		delete(parent.(map[string]any), key.(string)) //nolint:forcetypeassert // What is no list is an object.
	}
	m.all = append(m.all, policyMutant{without: without, policy: changed})
}

// countValues is how many values a tree has.
func countValues(tree any) int {
	n := 1
	switch v := tree.(type) {
	case map[string]any:
		for _, value := range v {
			n += countValues(value)
		}
	case []any:
		for _, item := range v {
			n += countValues(item)
		}
	}
	return n
}

// list are the objects in a list.
func (m *mutator) list(path ...any) []map[string]any {
	items, _ := lookupPath(m.policy, path).([]any)
	var all []map[string]any
	for _, item := range items {
		object, _ := item.(map[string]any)
		all = append(all, object)
	}
	return all
}

// lookupPath is the value at a path of names and indices, nil if there is none.
func lookupPath(tree any, path []any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := tree.(map[string]any)
			tree = object[key]
		case int:
			list, _ := tree.([]any)
			if key >= len(list) {
				return nil
			}
			tree = list[key]
		}
	}
	return tree
}

// fieldName is a path as problems write it: spec.overrideRules[0].targetOperations.
func fieldName(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch key := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", key)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(key)
		}
	}
	return b.String()
}
