package kyverno

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// mutate converts a rule that changes objects.
func (c *conversion) mutate(r *syntax.Rule) []*piece {
	p, err := mutated(c, r)
	if err != nil {
		c.leave(r.Field, err)
		return nil
	}
	return []*piece{p}
}

func mutated(c *conversion, r *syntax.Rule) (*piece, error) {
	m := r.Mutate
	if len(m.Targets) > 0 {
		return nil, refuse(m.Field+".targets", "it changes objects that exist", "keep it: policies change only the object of a request")
	}
	p, err := c.piece(r, admissionv1.Create, admissionv1.Update)
	if err != nil {
		return nil, err
	}
	if p.templates == v1alpha1.PodTemplatesDeny {
		c.note(m.Field, "pods are changed when they are created: the templates of workloads stay as they are", "")
	}
	p.templates, p.bindings = "", nil
	j := &judge{conversion: c, r: r, p: p, preconditions: r.Preconditions, entries: map[string]string{}}
	if err := j.operations(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(p.selection.rules, func(o admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(o.Operations, admissionv1.Delete)
	}) {
		return nil, refuse(m.Field, "it is for objects that are deleted", "leave the operation out")
	}
	j.scope = j.current()
	j.context(r.Context)
	w := &patcher{judge: j, when: p.selection.applies}
	if j.preconditions != nil {
		v, err := j.scope.Conditions(j.preconditions)
		if err != nil {
			return nil, placed(j.preconditions.Field, err)
		}
		w.when = all(w.when, termOf(v))
	}
	if err := w.rule(m); err != nil {
		return nil, err
	}
	for _, text := range j.scope.Notes() {
		j.note(r.Field, text, "")
	}
	return p, nil
}

// A patcher writes mutations of a rule.
type patcher struct {
	*judge

	// when holds if the rule is for the object.
	when term
	// changes are those that are not yet mutations.
	changes []change
	// conditions are those of anchors: unless all hold nothing is changed.
	conditions []term
	// texts says that values are parts of a text, in which variables are texts.
	texts bool
	// several says that a loop is over the elements of several lists.
	several bool
	// first is the list in CEL whose first element decides whether keys are added; empty outside of lists.
	first string
	// item is the variable of an element of that list.
	item string
}

func (w *patcher) rule(m *syntax.Mutate) error {
	switch {
	case m.PatchStrategicMerge != nil:
		return w.merge(m.PatchStrategicMerge)
	case m.PatchesJSON6902 != "":
		if err := w.patch(m.PatchesJSON6902, m.Field+".patchesJson6902", func(text string) string { return text }); err != nil {
			return err
		}
		return w.finish()
	case len(m.Foreach) > 0:
		for n := range m.Foreach {
			if err := w.each(&m.Foreach[n], 0, func(text string) string { return text }); err != nil {
				return err
			}
		}
		return w.finish()
	}
	return refuse(m.Field, "it changes nothing", "leave it out")
}

// add adds a mutation that makes operations of a JSON patch: lists of CEL.
func (w *patcher) add(lists ...string) {
	text := joinedLists(lists)
	if when := all(append([]term{w.when}, w.conditions...)...); when != yes {
		text = when.within(either) + " ? " + parenthesizedChoice(text) + " : []"
	}
	w.p.mutations = append(w.p.mutations, v1alpha1.Mutation{
		Name: w.mutationName(), PatchType: v1alpha1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: text},
	})
}

// mutationName returns a name for the next mutation of the rule.
func (w *patcher) mutationName() string {
	if len(w.p.mutations) == 0 {
		return dns(w.r.Name)
	}
	return ""
}

func joinedLists(lists []string) string {
	var operations, rest []string
	for _, list := range lists {
		if inside, ok := strings.CutPrefix(list, "["); ok && strings.HasSuffix(list, "]") && !strings.Contains(list, " ? ") && !strings.Contains(list, "transformList") {
			operations = append(operations, strings.TrimSuffix(inside, "]"))
			continue
		}
		rest = append(rest, list)
	}
	if len(operations) > 0 {
		rest = append([]string{"[" + strings.Join(operations, ", ") + "]"}, rest...)
	}
	switch len(rest) {
	case 0:
		return "[]"
	case 1:
		return rest[0]
	}
	for i, list := range rest {
		if strings.Contains(list, " ? ") {
			rest[i] = "(" + list + ")"
		}
	}
	return strings.Join(rest, " + ")
}

// merge converts a strategic merge of the object.
func (w *patcher) merge(p *syntax.Pattern) error {
	if p.Sort != syntax.Map {
		return refuse(p.Field, "it is no map", "correct it")
	}
	if w.when == yes && w.static(p) {
		raw, err := json.Marshal(p.Raw())
		if err != nil {
			return err
		}
		w.p.mutations = append(w.p.mutations, v1alpha1.Mutation{Name: w.mutationName(), PatchType: v1alpha1.PatchTypeMergePatch, MergePatch: &apiextensionsv1.JSON{Raw: raw}})
		return nil
	}
	of := w.p.selection.shape
	of.root = true
	lists, err := w.keys(p, "object", location{}, of)
	if err != nil {
		return err
	}
	w.add(lists...)
	w.conditions = nil
	return nil
}

// static reports whether a patch is a merge patch as it is: it has no anchors, variables and lists.
func (w *patcher) static(p *syntax.Pattern) bool {
	text, _ := p.Scalar.(string)
	if p.Sort == syntax.List && !w.replaced(p) || strings.Contains(text, "{{") || strings.Contains(text, "$(") || strings.Contains(text, `\{{`) {
		return false
	}
	for _, item := range p.Items {
		if !w.static(item) || item.Sort == syntax.Map && slices.ContainsFunc(item.Keys, func(k syntax.Key) bool { return k.Value.Scalar == nil && k.Value.Sort == syntax.Scalar }) {
			return false
		}
	}
	return !slices.ContainsFunc(p.Keys, func(k syntax.Key) bool {
		return k.Anchor != syntax.NoAnchor || strings.Contains(k.Text, "{{") || !w.static(k.Value)
	})
}

// Lists of built-in kinds whose elements are merged, by the key that identifies them, and lists that are replaced.
var (
	mergedLists = map[string]string{
		"containers": "name", "initContainers": "name", "ephemeralContainers": "name", "volumes": "name", "env": "name",
		"imagePullSecrets": "name", "volumeMounts": "mountPath",
	}
	replacedLists = []string{"tolerations", "envFrom", "args", "command", "drop", "add", "options", "nameservers", "searches"}
)

// replaced reports whether a list is replaced as a whole.
func (w *patcher) replaced(p *syntax.Pattern) bool {
	builtIn := !slices.ContainsFunc(w.p.selection.rules, func(r admissionv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, func(group string) bool { return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") })
	})
	return !builtIn || slices.Contains(replacedLists, lastField(p.Field))
}

// lastField is the last name of a field.
func lastField(field string) string {
	name := field[strings.LastIndexByte(field, '.')+1:]
	return strings.Trim(name, "+()<=^X")
}
