package policytest

import (
	"maps"
	"slices"
)

// object makes the mutants that only object policies have: without a subject, a binding, a part of
// a binding or of its params, a field of a message, or a part of a patch; and with another answer
// for the pods of workloads. What it shares with the policies of Kubernetes is in admission.
func (m *mutator) object() {
	if !isObjectPolicy(m.policy) {
		return
	}
	for _, list := range []string{"subjects", "excludeSubjects"} {
		m.users("spec", list)
	}
	m.each("spec", "bindings")
	for i := range m.list("spec", "bindings") {
		m.resources("spec", "bindings", i, "matchResources")
		m.items("spec", "bindings", i, "validationActions")
		m.swaps("spec", "bindings", i)
		m.parts("spec", "bindings", i, "params")
	}
	for i, v := range m.list("spec", "validations") {
		if v["fieldPath"] != nil {
			m.leave("spec", "validations", i, "fieldPath")
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

// isObjectPolicy reports whether a policy is an object policy.
func isObjectPolicy(policy map[string]any) bool {
	return policy["kind"] == "ClusterObjectPolicy" || policy["kind"] == "ObjectPolicy"
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
