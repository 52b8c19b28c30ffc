package interpret

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A validation evaluates a rule, or a loop in it.
type validation struct {
	policy *Policy
	rule   *syntax.Rule
	scope  *scope
	asked  asked
	// element is the map that patterns are for, nil outside of loops.
	element map[string]any
	nesting int
}

// preconditions returns Skip if conditions do not hold, and None if they do.
func (v *validation) preconditions(c *syntax.Conditions) (Status, error) {
	if c == nil {
		return None, nil
	}
	holds, err := v.scope.conditions(c)
	if err != nil || holds {
		return None, err
	}
	return Skip, nil
}

// enforces says that a rule has the action Enforce.
func (v *validation) enforces() bool {
	action := v.rule.Validate.FailureAction
	if action == "" {
		action = v.policy.of.Spec.ValidationFailureAction
	}
	return strings.EqualFold(action, "Enforce")
}

// root evaluates a rule. Where it enforces, an update of what violated it before is skipped.
func (v *validation) root() (Status, error) {
	r := v.asked.request
	status, err := settled(v.body(r.Object))
	if err != nil {
		return None, err
	}
	allow := v.rule.Validate.AllowExistingViolations
	if !v.enforces() || r.Operation != "UPDATE" || r.Object == nil || r.OldObject == nil || allow != nil && !*allow {
		return status, nil
	}
	before, err := v.before()
	if err != nil {
		return None, err
	}
	if status == Fail && before == Fail {
		return Skip, nil
	}
	return status, nil
}

// before evaluates a rule on the old object, as if somebody unknown created it. With preconditions there is no answer,
// whether they hold or not.
func (v *validation) before() (Status, error) {
	r := v.asked.request
	s := v.scope
	s.look(r.OldObject, nil)
	request, _ := s.values["request"].(map[string]any)
	request["operation"] = "CREATE"
	defer func() {
		s.look(r.Object, r.OldObject)
		request, _ := s.values["request"].(map[string]any)
		request["operation"] = r.Operation
	}()
	q := v.asked
	q.object, q.operation, q.subresource = r.OldObject, "CREATE", new(string)
	q.user = User{Name: "kyverno:kyverno-invalid-controller", Groups: []string{"kyverno:invalidgroup"}, Roles: []string{"kyverno:invalidrole"}, ClusterRoles: []string{"kyverno:invalidrole"}}
	if v.rule.Preconditions != nil || !q.matches(v.rule) {
		return Skip, nil
	}
	return settled(v.body(r.OldObject))
}

// body evaluates what a rule validates.
func (v *validation) body(object map[string]any) (Status, error) {
	of := v.rule.Validate
	switch {
	case of.PodSecurity != nil:
		return podSecurity(of.PodSecurity, object)
	case of.Deny != nil:
		return v.deny(of.Deny)
	case of.Pattern != nil || of.AnyPattern != nil:
		if object == nil {
			return None, nil
		}
		return v.patterns(of.Pattern, of.AnyPattern, object)
	default:
		return v.loops(of.Foreach, object)
	}
}

func (v *validation) deny(d *syntax.Deny) (Status, error) {
	refuse := true
	if d.Conditions != nil {
		var err error
		if refuse, err = v.scope.conditions(d.Conditions); err != nil {
			return None, err
		}
	}
	if refuse {
		return Fail, nil
	}
	return Pass, nil
}

func (v *validation) patterns(one, several *syntax.Pattern, object any) (Status, error) {
	pattern := one
	if one == nil {
		pattern = several
	}
	raw, err := v.scope.resolved(pattern.Raw())
	if err != nil {
		return None, err
	}
	resolved := syntax.PatternOf(raw, pattern.Field)
	if one != nil {
		return matches(object, resolved), nil
	}
	if resolved.Sort != syntax.List {
		return None, errors.New("anyPattern is no list")
	}
	failed := false
	for _, each := range resolved.Items {
		switch matches(object, each) {
		case Pass:
			return Pass, nil
		case Skip:
		default:
			failed = true
		}
	}
	switch {
	case failed:
		return Fail, nil
	case len(resolved.Items) > 0:
		return Skip, nil
	}
	return Pass, nil
}

// loops evaluates loops. Elements for which nothing is said do not count.
func (v *validation) loops(all []syntax.Foreach, object map[string]any) (Status, error) {
	applied := 0
	var wrong error
	for i := range all {
		elements, err := v.list(all[i].List)
		if unread(err) {
			return None, err
		}
		if err != nil {
			if !errors.Is(err, errMissing) {
				wrong = err
			}
			continue
		}
		status, count, err := v.elements(&all[i], elements, object)
		if err != nil || status != Pass {
			return status, err
		}
		applied += count
	}
	if applied == 0 {
		return None, wrong
	}
	return Pass, nil
}

func (v *validation) list(path string) ([]any, error) {
	value, err := v.scope.query(path)
	if err != nil {
		return nil, err
	}
	if items, ok := value.([]any); ok {
		return items, nil
	}
	return []any{value}, nil
}

func (v *validation) elements(f *syntax.Foreach, elements []any, object map[string]any) (Status, int, error) {
	count := 0
	for i, element := range elements {
		if element == nil {
			continue
		}
		more := map[string]any{"element": element, "elementIndex": float64(i)}
		maps.Copy(more, map[string]any{fmt.Sprintf("element%d", v.nesting): element, fmt.Sprintf("elementIndex%d", v.nesting): float64(i)})
		inner := *v
		inner.scope, inner.nesting = v.scope.within(more, f.Context), v.nesting+1
		fields, scoped := element.(map[string]any)
		if f.ElementScope != nil {
			if *f.ElementScope && !scoped {
				return None, count, errors.New("elementScope is for maps")
			}
			scoped = *f.ElementScope
		}
		if scoped {
			inner.element = fields
		}
		status, err := inner.preconditions(f.Preconditions)
		if unread(err) || errors.Is(err, errPanics) {
			return None, count, err
		}
		if err != nil || status == Skip {
			continue
		}
		status, err = inner.loop(f, object)
		switch {
		case err != nil:
			return None, count, err
		case status == None || status == Skip:
		case status != Pass:
			return status, count, nil
		default:
			count++
		}
	}
	return Pass, count, nil
}

// loop evaluates what a loop validates for one element.
func (v *validation) loop(f *syntax.Foreach, object map[string]any) (Status, error) {
	switch {
	case f.Deny != nil:
		return v.deny(f.Deny)
	case f.Pattern != nil || f.AnyPattern != nil:
		if len(v.element) > 0 {
			return v.patterns(f.Pattern, f.AnyPattern, whole(v.element))
		}
		if object == nil {
			return None, nil
		}
		return v.patterns(f.Pattern, f.AnyPattern, object)
	default:
		return v.loops(f.Foreach, object)
	}
}

// whole returns a value with whole numbers where these are.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = whole(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for k := range v {
			all[k] = whole(v[k])
		}
		return all
	}
	return value
}
