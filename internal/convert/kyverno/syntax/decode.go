package syntax

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// An Error is why a policy cannot be read.
type Error struct {
	// Field is the place, as far as it is known.
	Field, What string
}

// Error names the place.
func (e *Error) Error() string { return strings.TrimPrefix(e.Field+": "+e.What, ": ") }

// Limits of policies. Those that an API server stores are smaller.
const (
	deepest = 80
	most    = 1 << 20
)

// Decode reads a ClusterPolicy or a Policy.
func Decode(object map[string]any) (*Policy, []Error) {
	p := &Policy{Raw: object}
	p.Kind, _ = object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	p.Name, _ = metadata["name"].(string)
	p.Namespace, _ = metadata["namespace"].(string)
	p.Annotations = map[string]string{}
	annotations, _ := metadata["annotations"].(map[string]any)
	for key, value := range annotations {
		if text, ok := value.(string); ok {
			p.Annotations[key] = text
		}
	}
	if errs := decode(object, &p.Spec); len(errs) > 0 {
		return nil, errs
	}
	spec, _ := object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for i := range p.Spec.Rules {
		r := &p.Spec.Rules[i]
		if i < len(rules) {
			r.Raw, _ = rules[i].(map[string]any)
		}
		r.place(fmt.Sprintf("spec.rules[%d]", i))
	}
	return p, nil
}

// DecodeRule reads a rule again whose text was changed.
func DecodeRule(raw map[string]any, field string) (*Rule, []Error) {
	r := &Rule{Raw: raw}
	if errs := read(raw, field, r); len(errs) > 0 {
		return nil, errs
	}
	r.place(field)
	return r, nil
}

// DecodeException reads a PolicyException.
func DecodeException(object map[string]any) (*Exception, []Error) {
	e := &Exception{}
	metadata, _ := object["metadata"].(map[string]any)
	e.Name, _ = metadata["name"].(string)
	e.Namespace, _ = metadata["namespace"].(string)
	if errs := decode(object, &e.Spec); len(errs) > 0 {
		return nil, errs
	}
	e.Spec.Match.place("spec.match")
	e.Spec.Conditions.place("spec.conditions")
	return e, nil
}

// decode reads the spec of an object.
func decode(object map[string]any, into any) []Error {
	for key := range object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status"}, key) {
			return []Error{{Field: key, What: "there is no such field"}}
		}
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return []Error{{Field: "spec", What: "there is none"}}
	}
	return read(spec, "spec", into)
}

// read reads an object at a field. Fields that into does not have are errors.
func read(object map[string]any, field string, into any) []Error {
	if tooDeep(object, 0) {
		return []Error{{Field: field, What: fmt.Sprintf("it has more than %d levels", deepest)}}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return []Error{{Field: field, What: err.Error()}}
	}
	if len(raw) > most {
		return []Error{{Field: field, What: fmt.Sprintf("it has more than %d MiB", most>>20)}}
	}
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return []Error{{Field: field, What: strings.TrimPrefix(err.Error(), "json: ")}}
	}
	var errs []Error
	for _, err := range unknown {
		at := field
		if of, ok := err.(kjson.FieldError); ok {
			at += "." + of.FieldPath()
		}
		errs = append(errs, Error{Field: at, What: "there is no such field"})
	}
	return errs
}

func tooDeep(value any, depth int) bool {
	if depth > deepest {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if tooDeep(member, depth+1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return tooDeep(item, depth+1) })
	}
	return false
}

// unmarshal reads any JSON, with int64 for whole numbers.
func unmarshal(raw []byte, into any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// strictly reads JSON that has no other fields than into has.
func strictly(raw []byte, into any) error {
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}
