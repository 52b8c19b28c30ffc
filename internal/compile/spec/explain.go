package spec

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// explainTimeout limits how long the expressions of one rule are explained.
const explainTimeout = 2 * time.Second

// Evaluations explains the evaluations of a program with objects of params, one after the other.
func Evaluations(program *admission.Program, in *rule.Input, params []map[string]any, structures admission.Structures) ([]rule.Expression, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), explainTimeout, fmt.Errorf("stopped at the limit of %s", explainTimeout))
	defer cancel()
	evaluation := Input(in)
	var all []rule.Expression
	for _, object := range params {
		evaluation.Params = object
		told, err := program.Explain(ctx, evaluation, structures)
		for i := range told {
			told[i].Params = nameOf(object)
		}
		all = append(all, told...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Explain tells what the selectors have selected by, and whether one skips the request.
func (m *Match) Explain(field string, in *rule.Input) (told []rule.Expression, skipped bool, err error) {
	if m.labels != nil {
		e := rule.Expression{Field: field + ".objectSelector", Text: m.labels.String()}
		selected := false
		for _, x := range []struct {
			name   string
			object map[string]any
		}{{"object", in.Object}, {"oldObject", in.OldObject}} {
			if x.object != nil {
				e.Parts = append(e.Parts, labelsRead(m.labels, x.name, x.object)...)
				selected = selected || selects(m.labels, x.object)
			}
		}
		e.Value = selected
		told, skipped = append(told, e), !selected
	}
	if skipped || m.namespaces == nil || clusterScoped(in.Request) {
		return told, skipped || m.namespaces != nil && m.inNamespaces, nil
	}
	namespace, err := namespaceOf(in)
	if err != nil {
		return told, false, fmt.Errorf("read namespace: %w", err)
	}
	selected := selects(m.namespaces, namespace)
	return append(told, rule.Expression{
		Field: field + ".namespaceSelector", Text: m.namespaces.String(), Value: selected, Parts: labelsRead(m.namespaces, "namespace", namespace),
	}), !selected, nil
}

// nameOf names an object of params, empty if there is none.
func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	kind, _ := object["kind"].(string)
	name, _ := metadata["name"].(string)
	if namespace, ok := metadata["namespace"].(string); ok {
		name = namespace + "/" + name
	}
	if kind == "" {
		return name
	}
	return kind + " " + name
}

// labelsRead are the labels of an object that a selector asks for.
func labelsRead(selector labels.Selector, name string, object map[string]any) []rule.Expression {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	requirements, _ := selector.Requirements()
	var told []rule.Expression
	for _, requirement := range requirements {
		value, ok := all[requirement.Key()]
		told = append(told, rule.Expression{Text: "label " + requirement.Key() + " of the " + name, Value: value, Absent: !ok})
	}
	return told
}
