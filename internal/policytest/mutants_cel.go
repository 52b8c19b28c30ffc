package policytest

import (
	"fmt"
	"slices"
	"strings"

	celmutant "github.com/usher-dev/usher/internal/lang/cel/mutant"
)

// admission makes the mutants of an admission policy of Kubernetes, of a binding, or of an object
// policy: without a resource rule, an exclusion, a clause of a selector, a condition, a validation,
// a mutation or an audit annotation; with other expressions; with other actions; and with the other
// answer for params that do not exist.
func (m *mutator) admission() {
	m.resources("spec", "matchConstraints")
	m.resources("spec", "matchResources")
	for _, list := range []string{"validations", "mutations", "auditAnnotations", "validationActions"} {
		m.items("spec", list)
	}
	for _, list := range []string{"matchConditions", "variables"} {
		for i := range m.list("spec", list) {
			m.leave("spec", list, i)
		}
	}
	for _, list := range []string{"variables", "matchConditions", "validations"} {
		for i := range m.list("spec", list) {
			m.expression("spec", list, i, "expression")
		}
	}
	for i, v := range m.list("spec", "validations") {
		if len(m.list("spec", "validations")) == 1 {
			m.constant("true", "spec", "validations", i, "expression")
		}
		m.constant("false", "spec", "validations", i, "expression")
		if v["messageExpression"] != nil {
			m.expression("spec", "validations", i, "messageExpression")
			m.leave("spec", "validations", i, "messageExpression")
		} else if v["message"] != nil {
			m.leave("spec", "validations", i, "message")
		}
		if v["reason"] != nil {
			m.leave("spec", "validations", i, "reason")
		}
	}
	for i := range m.list("spec", "mutations") {
		m.expression("spec", "mutations", i, "jsonPatch", "expression")
		m.expression("spec", "mutations", i, "applyConfiguration", "expression")
	}
	for i := range m.list("spec", "auditAnnotations") {
		m.expression("spec", "auditAnnotations", i, "valueExpression")
	}
	m.swaps("spec")
}

// resources leaves out the parts of a MatchResources that narrow it.
func (m *mutator) resources(path ...any) {
	at := func(more ...any) []any { return append(slices.Clone(path), more...) }
	m.items(at("resourceRules")...)
	for i := range m.list(at("resourceRules")...) {
		for _, list := range []string{"operations", "apiGroups", "resources", "resourceNames"} {
			m.items(at("resourceRules", i, list)...)
		}
		for _, field := range []string{"resourceNames", "scope"} {
			if lookupPath(m.policy, at("resourceRules", i, field)) != nil {
				m.leave(at("resourceRules", i, field)...)
			}
		}
	}
	for i := range m.list(at("excludeResourceRules")...) {
		m.leave(at("excludeResourceRules", i)...)
	}
	for _, selector := range []string{"namespaceSelector", "objectSelector"} {
		m.labels(at(selector)...)
	}
}

// labels leaves out the clauses of a selector of labels, and the values that a clause has.
func (m *mutator) labels(path ...any) {
	selector, _ := lookupPath(m.policy, path).(map[string]any)
	m.clauses(selector, path...)
	expressions, _ := selector["matchExpressions"].([]any)
	for i := range expressions {
		m.items(append(slices.Clone(path), "matchExpressions", i, "values")...)
	}
}

// swaps changes what a binding does.
func (m *mutator) swaps(path ...any) {
	at := func(more ...any) []any { return append(slices.Clone(path), more...) }
	m.labels(at("paramRef", "selector")...)
	m.swap(map[string]string{"Allow": "Deny", "Deny": "Allow"}, at("paramRef", "parameterNotFoundAction")...)
	m.swap(map[string]string{"Deny": "Audit", "Warn": "Deny", "Audit": "Deny"}, at("validationActions", 0)...)
}

// swap replaces one of several texts by another.
func (m *mutator) swap(others map[string]string, path ...any) {
	text, _ := lookupPath(m.policy, path).(string)
	if other, ok := others[text]; ok {
		m.replace(fmt.Sprintf("%s instead of %s at %s", other, text, fieldName(path)), other, path...)
	}
}

// expression replaces a CEL expression by each of its mutants.
func (m *mutator) expression(path ...any) {
	text, _ := lookupPath(m.policy, path).(string)
	for _, wrong := range celmutant.Of(text) {
		m.replace(fmt.Sprintf("%s: %s", fieldName(path), wrong.Change), wrong.Expression, path...)
	}
}

// constant replaces a CEL expression by a constant.
func (m *mutator) constant(value string, path ...any) {
	if text, _ := lookupPath(m.policy, path).(string); strings.TrimSpace(text) == value {
		return
	}
	m.replace(fmt.Sprintf("%s: %s instead of the expression", fieldName(path), value), value, path...)
}

func (m *mutator) replace(what, value string, path ...any) {
	m.change("", func(parent, key any) {
		switch parent := parent.(type) {
		case map[string]any:
			parent[key.(string)] = value //nolint:forcetypeassert // The key of an object is its name.
		case []any:
			parent[key.(int)] = value //nolint:forcetypeassert // That of a list is a number.
		}
	}, path...)
	m.all[len(m.all)-1].with = what
}
