package kcloudlabs

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

func (c *compilation) selectors(selectors []v1alpha1.ResourceSelector) {
	if len(selectors) == 0 && c.pass != passNamespaced {
		// A policy that refuses everything must not refuse that it is corrected.
		c.excluded = &rule.Excluded{Kinds: rule.Kinds{
			{Group: v1alpha1.GroupVersion.Group, Kind: "*"}, {Group: usherv1alpha1.GroupVersion.Group, Kind: "*"},
		}}
		c.warn("spec.resourceSelectors", "the policy has no selectors: it is for every object of every kind, except policies", "name the kinds that it is for")
	}
	for i := range selectors {
		s := &selectors[i]
		field := fmt.Sprintf("spec.resourceSelectors[%d]", i)
		compiled, problems := reference.CompileSelector(*s)
		c.add(field, problems)
		c.match = append(c.match, compiled)
		for _, clause := range []struct{ field, value string }{{"namespace", s.Namespace}, {"name", s.Name}} {
			if strings.Contains(clause.value, "*") {
				c.warn(join(field, clause.field), fmt.Sprintf("no object has the %s %q, and * has no meaning here: the selector selects nothing", clause.field, clause.value),
					"write a selector for each name, or leave it out")
			}
		}
		for _, clause := range []struct{ field, value string }{{"apiVersion", s.APIVersion}, {"kind", s.Kind}} {
			if clause.value == "" || strings.Contains(clause.value, "*") {
				c.warn(join(field, clause.field), fmt.Sprintf("%q is the %s of no object: the selector selects nothing", clause.value, clause.field),
					"write it out; a policy without selectors selects every object")
			}
		}
	}
}

// foreignNamespaces warns of selectors for namespaces other than the policy's own.
func (c *compilation) foreignNamespaces(selectors []v1alpha1.ResourceSelector) {
	for i := range selectors {
		if ns := selectors[i].Namespace; ns != "" && c.ref.Namespace != "" && ns != c.ref.Namespace {
			c.warn(fmt.Sprintf("spec.resourceSelectors[%d].namespace", i),
				fmt.Sprintf("%q is not the namespace of the policy, %q: the selector selects nothing", ns, c.ref.Namespace),
				"move the policy to that namespace, or ask who administers the cluster for a ClusterOverridePolicy")
		}
	}
}

// operations returns the operations of a rule; nil means all. Unknown words stay in the list: a
// rule with nothing else must not become one for all operations.
func (c *compilation) operations(field string, words []string) []usher.Operation {
	operations := make([]usher.Operation, 0, len(words))
	every := len(words) == 0
	for i, word := range words {
		operation := usher.Operation(word)
		switch {
		case word == "*":
			every = true
		case !slices.Contains(usher.Operations(), operation):
			c.unknownOperation(fmt.Sprintf("%s.targetOperations[%d]", field, i), word)
			fallthrough
		default:
			operations = append(operations, operation)
		}
	}
	if every && len(operations) > 0 {
		c.warn(field+".targetOperations", "* means all operations: the others do not count", "leave out * or the others")
	}
	if every {
		return nil
	}
	return operations
}

func (c *compilation) unknownOperation(field, word string) {
	do := "use CREATE, UPDATE, DELETE, CONNECT or * for all of them"
	for _, operation := range usher.Operations() {
		if strings.EqualFold(word, string(operation)) {
			do = "write " + string(operation)
		}
	}
	c.warn(field, fmt.Sprintf("unknown operation %q", word), do)
}
