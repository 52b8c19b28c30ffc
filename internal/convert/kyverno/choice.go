package kyverno

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
)

// chosen finds a resource that a variable chooses of a map of constants: {{ map.{{ key }} }}.
var chosen = regexp.MustCompile(`^\{\{\s*(\w+)\.\{\{\s*(\w+)\s*\}\}\s*\}\}$`)

// mostChoices is how many kinds a path may choose of: the objects of all are read.
const mostChoices = 8

// listOfChoice adds lists of the objects of each kind that a variable may choose. The value is the one that it does; a
// choice that the map does not have is an error.
func listOfChoice(j source, p *path, query, field string) (expression.Value, error) {
	none, unknown := expression.Value{}, refuse(field, "the kind of "+p.resource+" is not known", "name the file with its CustomResourceDefinition, too")
	found := chosen.FindStringSubmatch(p.resource)
	if found == nil || p.named {
		return none, unknown
	}
	of, err := j.scope.Expression(found[1])
	resources, ok := of.Constant.(map[string]any)
	if err != nil || !ok || len(resources) == 0 || len(resources) > mostChoices {
		return none, unknown
	}
	key, err := j.scope.Expression(found[2])
	if err != nil || key.Type.Kind != expression.Text || key.CanBeNull() || query != "" {
		return none, unknown
	}
	text, last := strings.Builder{}, len(resources)-1
	for i, choice := range slices.Sorted(maps.Keys(resources)) {
		name, _ := resources[choice].(string)
		resource := j.resource(p.group, p.version, name)
		if resource == nil {
			return none, refuse(field, "the kind of "+name+" is not known", "name the file with its CustomResourceDefinition, too")
		}
		l := &v1alpha1.DataList{APIVersion: schema.GroupVersion{Group: p.group, Version: p.version}.String(), Kind: resource.Kind}
		if err := j.place(p.namespace, field, &l.Namespace, &l.NamespaceExpression); err != nil {
			return none, err
		}
		if !p.inNamespace && resource.Namespaced {
			l.Namespace = "*"
		}
		all := j.add(v1alpha1.DataSource{Name: j.e.Name + " " + name, List: l}, expression.Type{}).Postfix()
		if i == last {
			text.WriteString("{" + convert.Quote(choice) + ": " + all + "}[" + key.Text + "]")
			break
		}
		text.WriteString(key.Postfix() + " == " + convert.Quote(choice) + " ? " + all + " : ")
	}
	list := expression.Named("("+text.String()+")", expression.ListOf(expression.ObjectOf(j.Kinds)))
	return list.Reading().Items(), nil
}
