package admission

import (
	"maps"
	"regexp"
	"slices"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/rule"
)

// Declared returns the types of the variables request and namespaceObject.
func Declared() (request, namespace *apiservercel.DeclType) { return requestType(), namespaceType() }

var undefinedField = regexp.MustCompile(`undefined field '([^']*)'`)

// adviseField says which field of request, namespaceObject or data is meant, if one is similar to
// that of an error of the compiler.
func adviseField(what string, data []string) string {
	m := undefinedField.FindStringSubmatch(what)
	if m == nil {
		return ""
	}
	names := slices.Sorted(slices.Values(data))
	request, namespace := Declared()
	for _, of := range []*apiservercel.DeclType{request, namespace} {
		names = append(names, fieldsBelow(of)...)
	}
	return rule.Suggestion(m[1], names)
}

// fieldsBelow returns the names of the fields of a type, and of the types of these.
func fieldsBelow(of *apiservercel.DeclType) []string {
	names := slices.Sorted(maps.Keys(of.Fields))
	for _, name := range slices.Clone(names) {
		names = append(names, fieldsBelow(of.Fields[name].Type)...)
	}
	if of.ElemType != nil {
		names = append(names, fieldsBelow(of.ElemType)...)
	}
	return names
}
