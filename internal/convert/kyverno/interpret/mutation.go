package interpret

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	kyaml "sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// Changed returns the object of a request as the rules of a policy change it, one after the other, and the status of
// each rule that says something. An error of a rule is a status; the object is nil then. The error is an [Unread] if
// the policy has something that is not interpreted: rules that Kyverno makes for workloads are.
func (p *Policy) Changed(r *Request) (map[string]any, map[string]Status, error) {
	all := map[string]Status{}
	object, _ := whole(floats(r.Object)).(map[string]any)
	if r.Object == nil || r.Operation != "CREATE" && r.Operation != "UPDATE" || !p.concerns(r) {
		return object, all, nil
	}
	for i := range p.of.Spec.Rules {
		rule := &p.of.Spec.Rules[i]
		if rule.Mutate == nil || len(rule.Mutate.Targets) > 0 {
			continue
		}
		if workloads[kindOfObject(r.Object).kind] != "" && hasPod(kindsOf(&rule.Match)) && p.Generates() {
			return nil, nil, &Unread{"a change of the pods of workloads"}
		}
		changed, status, err := p.change(rule, r, object)
		if err != nil {
			return nil, nil, err
		}
		if status == None {
			continue
		}
		all[rule.Name] = status
		if status == Error {
			return nil, all, nil
		}
		object = changed
		if p.of.Spec.ApplyRules == "One" && status != Skip {
			break
		}
	}
	return object, all, nil
}

// change returns an object as one rule changes it.
func (p *Policy) change(rule *syntax.Rule, r *Request, object map[string]any) (map[string]any, Status, error) {
	q := asked{request: r, user: r.user(), operation: r.Operation, object: object, namespace: p.of.Namespace}
	if !q.matches(rule) {
		return object, None, nil
	}
	if rule.ImageExtractors != nil || rule.CELPreconditions != nil {
		return nil, None, &Unread{"imageExtractors or celPreconditions of the rule " + rule.Name}
	}
	s := newScope(r, &q.user, p.of.Namespace)
	s.entries = rule.Context
	s.look(object, r.OldObject)
	v := validation{policy: p, rule: rule, scope: s, asked: q}
	status, err := v.preconditions(rule.Preconditions)
	if err == nil && status == None && p.excepted(rule, s, q) {
		status = Skip
	}
	if err != nil || status != None {
		status, err = settled(status, err)
		return object, status, err
	}
	var changed map[string]any
	c := changer{validation: v}
	if rule.Mutate.Foreach != nil {
		changed, status, err = c.loops(rule.Mutate.Foreach, object)
	} else if changed, err = c.once(object); err == nil {
		status = changedStatus(object, changed)
	}
	status, err = settled(status, err)
	return changed, status, err
}

func changedStatus(before, after map[string]any) Status {
	if reflect.DeepEqual(before, after) {
		return Skip
	}
	return Pass
}

// A changer changes an object by a rule, or by a loop in it.
type changer struct{ validation }

// once applies the patch of a rule. All texts of the rule are resolved for it.
func (c *changer) once(object map[string]any) (map[string]any, error) {
	resolved, err := c.scope.resolved(c.rule.Raw)
	if err != nil {
		return nil, err
	}
	fields, _ := resolved.(map[string]any)
	mutate, _ := fields["mutate"].(map[string]any)
	return patched(object, mutate["patchStrategicMerge"], mutate["patchesJson6902"])
}

// patched applies a strategic merge, or else a JSON patch.
func patched(object map[string]any, merge, operations any) (map[string]any, error) {
	if merge != nil {
		return strategic(object, whole(merge))
	}
	text, ok := operations.(string)
	if !ok || text == "" {
		return nil, fmt.Errorf("there is no patch")
	}
	raw := []byte(text)
	if text[0] != '[' {
		var err error
		if raw, err = kyaml.YAMLToJSON(raw); err != nil {
			return nil, fmt.Errorf("read a patch: %w", err)
		}
	}
	list, err := parsed(raw)
	if err != nil {
		return nil, err
	}
	return edited(object, whole(list))
}

// loops applies loops one after the other.
func (c *changer) loops(all []syntax.ForeachMutate, object map[string]any) (map[string]any, Status, error) {
	applied := false
	for i := range all {
		elements, err := c.list(all[i].List)
		if err != nil {
			return nil, None, err
		}
		changed, err := c.elements(&all[i], elements, object)
		if err != nil {
			return nil, None, err
		}
		if changedStatus(object, changed) == Pass {
			applied, object = true, changed
			c.scope.look(object, c.asked.request.OldObject)
		}
	}
	if !applied {
		return object, Skip, nil
	}
	return object, Pass, nil
}

// elements applies a loop: merges begin with the last element, others with the first.
func (c *changer) elements(f *syntax.ForeachMutate, elements []any, object map[string]any) (map[string]any, error) {
	places := make([]int, len(elements))
	for i := range places {
		places[i] = i
	}
	descending := f.PatchStrategicMerge != nil
	if f.Order != "" {
		descending = f.Order == "Descending"
	}
	if descending {
		slices.Reverse(places)
	}
	for _, i := range places {
		if elements[i] == nil {
			continue
		}
		more := map[string]any{"element": elements[i], "elementIndex": float64(i)}
		maps.Copy(more, map[string]any{fmt.Sprintf("element%d", c.nesting): elements[i], fmt.Sprintf("elementIndex%d", c.nesting): float64(i)})
		inner := *c
		inner.scope, inner.nesting = c.scope.within(more, f.Context), c.nesting+1
		status, err := inner.preconditions(f.Preconditions)
		if err != nil {
			return nil, err
		}
		if status == Skip {
			continue
		}
		if object, err = inner.one(f, object); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// one applies a loop for one element.
func (c *changer) one(f *syntax.ForeachMutate, object map[string]any) (map[string]any, error) {
	if len(f.Foreach) > 0 {
		changed, _, err := c.loops(f.Foreach, object)
		return changed, err
	}
	document := map[string]any{"patchesJson6902": f.PatchesJSON6902}
	if f.PatchStrategicMerge != nil {
		document["patchStrategicMerge"] = f.PatchStrategicMerge.Raw()
	}
	resolved, err := c.scope.resolved(document)
	if err != nil {
		return nil, err
	}
	fields, _ := resolved.(map[string]any)
	return patched(object, fields["patchStrategicMerge"], fields["patchesJson6902"])
}
