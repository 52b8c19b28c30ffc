package policytest

import (
	"maps"
	"reflect"
	"slices"
)

// object makes the mutants that only object policies have: without a subject, a binding, a part of
// a binding or of its params, or a part of a patch; and with another field of a message, or another answer
// for the pods of workloads. What it shares with the policies of Kubernetes is in admission.
func (m *mutator) object() {
	if !kindOf(m.policy).ObjectPolicy {
		return
	}
	for _, list := range []string{"subjects", "excludeSubjects"} {
		m.users("spec", list)
	}
	if bindings := m.list("spec", "bindings"); len(bindings) != 1 || !denies(bindings[0]) {
		m.each("spec", "bindings")
	}
	for i := range m.list("spec", "bindings") {
		m.resources("spec", "bindings", i, "matchResources")
		m.items("spec", "bindings", i, "validationActions")
		m.swaps("spec", "bindings", i)
	}
	m.params()
	for i, v := range m.list("spec", "validations") {
		if field, _ := v["fieldPath"].(string); field != "" {
			// Without it, the field that the expression reads could be the same.
			m.swap(map[string]string{field: field + ".other"}, "spec", "validations", i, "fieldPath")
		}
		m.conditions(v["cue"], "spec", "validations", i, "cue")
	}
	for i, mutation := range m.list("spec", "mutations") {
		m.parts("spec", "mutations", i, "mergePatch")
		m.values(mutation["template"], "spec", "mutations", i, "template")
	}
	for i := range m.list("spec", "data") {
		m.labels("spec", "data", i, "list", "labelSelector")
	}
	m.swap(map[string]string{"Deny": "Warn", "Warn": "Deny", "Off": "Warn"}, "spec", "podTemplates")
	m.existing()
}

// denies reports whether a binding says what a policy without bindings does: it denies, everywhere.
func denies(binding map[string]any) bool {
	actions, _ := binding["validationActions"].([]any)
	return len(binding) == 2 && binding["name"] != nil && len(actions) == 1 && actions[0] == "Deny"
}

// params leaves out the parts of the params of bindings. A param that all bindings have with the
// same value is one setting: its parts are left out of all of them.
func (m *mutator) params() {
	bindings := m.list("spec", "bindings")
	for i, binding := range bindings {
		own, _ := binding["params"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(own)) {
			shared := !slices.ContainsFunc(bindings, func(other map[string]any) bool {
				return !reflect.DeepEqual(lookupPath(other, []any{"params", key}), own[key])
			})
			if shared && i > 0 {
				continue
			}
			start := len(m.all)
			if len(own) > 1 {
				m.leave("spec", "bindings", i, "params", key)
			}
			m.parts("spec", "bindings", i, "params", key)
			if shared {
				m.spread(start, key)
			}
		}
	}
}

// spread gives all bindings of the mutants from start on the param of the first binding.
func (m *mutator) spread(start int, key string) {
	for _, mutant := range m.all[start:] {
		changed := &mutator{policy: mutant.policy}
		bindings := changed.list("spec", "bindings")
		for _, binding := range bindings[1:] {
			params, _ := binding["params"].(map[string]any)
			if value := lookupPath(bindings[0], []any{"params", key}); value != nil {
				params[key] = value
			} else {
				delete(params, key)
			}
		}
	}
}

// existing leaves out what a policy says about existing objects, and changes its expressions.
func (m *mutator) existing() {
	if lookupPath(m.policy, []any{"spec", "existingObjects"}) == nil {
		return
	}
	m.leave("spec", "existingObjects")
	for i := range m.list("spec", "existingObjects", "matchConditions") {
		m.leave("spec", "existingObjects", "matchConditions", i)
		m.expression("spec", "existingObjects", "matchConditions", i, "expression")
	}
	for _, field := range []string{"messageExpression", "objectMessageExpression"} {
		if lookupPath(m.policy, []any{"spec", "existingObjects", field}) != nil {
			m.leave("spec", "existingObjects", field)
			m.expression("spec", "existingObjects", field)
		}
	}
}

// users leaves out each subject of a list, and each of several users, groups and service accounts.
func (m *mutator) users(path ...any) {
	m.each(path...)
	for i := range m.list(path...) {
		for _, of := range []string{"users", "groups", "serviceAccounts"} {
			m.items(append(slices.Clone(path), i, of)...)
		}
	}
}

// each leaves out each item of a list, and the list if it has one item.
func (m *mutator) each(path ...any) {
	if len(m.list(path...)) == 1 {
		m.leave(path...)
	}
	m.items(path...)
}

// parts leaves out each field and item of a tree that has others beside it.
func (m *mutator) parts(path ...any) {
	switch tree := lookupPath(m.policy, path).(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			at := append(slices.Clone(path), key)
			if len(tree) > 1 {
				m.leave(at...)
			}
			m.parts(at...)
		}
	case []any:
		m.items(path...)
	}
}
