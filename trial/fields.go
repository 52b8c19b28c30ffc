package trial

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/rule"
)

// unknownFields warns of paths that no object has of any kind that the rule selects.
func unknownFields(r *rule.Rule) []rule.Problem {
	kinds := kindsOf(r.Match.Selectors)
	if len(kinds) == 0 {
		return nil
	}
	var problems []rule.Problem
	for _, p := range pathsOf(r) {
		var wrong, near string
		for _, kind := range kinds {
			t, known := scheme.Scheme.AllKnownTypes()[kind]
			if !known {
				return nil
			}
			if wrong, near = follow(t, p); wrong == "" {
				break
			}
		}
		if wrong == "" {
			continue
		}
		problem := rule.Problem{
			Severity: rule.Warning, Field: r.Name, What: fmt.Sprintf("no %s has %s", kinds[len(kinds)-1].Kind, wrong), Do: "see kubectl explain",
		}
		if near != "" {
			problem.Do = "did you mean " + near + "?"
		}
		if !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	return problems
}

// pathsOf returns the paths in objects that the steps of a rule say they read or change.
func pathsOf(r *rule.Rule) []path {
	var all []path
	for _, s := range r.Steps {
		if reader, ok := s.Program.(interface{ Reads() []string }); ok {
			for _, text := range reader.Reads() {
				for _, parameter := range []string{"object", "oldObject", "data.object", "data.oldObject"} {
					if rest, ok := strings.CutPrefix(text, parameter+"."); ok && rest != "*" {
						all = append(all, parse(rest))
					}
				}
			}
		}
		if writer, ok := s.Program.(interface{ Pointers() []string }); ok {
			for _, pointer := range writer.Pointers() {
				all = append(all, parsePointer(pointer))
			}
		}
	}
	return all
}

// parse reads a path such as spec.containers[].image, as far as it is plain.
func parse(text string) path {
	var p path
	for text != "" {
		switch {
		case text[0] == '[':
			inside, rest, ok := strings.Cut(text[1:], "]")
			if !ok || strings.HasPrefix(inside, `"`) {
				return p
			}
			p, text = append(p, "[]"), strings.TrimPrefix(rest, ".")
		default:
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				end = len(text)
			}
			if text[:end] == "*" {
				return p
			}
			p, text = append(p, text[:end]), strings.TrimPrefix(text[end:], ".")
		}
	}
	return p
}

func parsePointer(pointer string) path {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	p := path(strings.Split(pointer[1:], "/"))
	for i := range p {
		p[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p[i])
	}
	return p
}

// follow returns the part of a path that leads to nothing in objects of type t, and what may be
// meant by it.
func follow(t reflect.Type, p path) (wrong, near string) {
	for i, name := range p {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if _, ok := special(t); ok {
			return "", ""
		}
		switch t.Kind() {
		case reflect.Slice:
			t = t.Elem()
		case reflect.Struct:
			fields := jsonFields(t)
			inner, ok := fields[name]
			if !ok && name == "[]" {
				return "", ""
			}
			if !ok {
				near = rule.Nearest(name, slices.Collect(maps.Keys(fields)))
				if near != "" {
					near = append(slices.Clone(p[:i]), near).expression()
				}
				return p[:i+1].expression(), near
			}
			t = inner
		default:
			return "", ""
		}
	}
	return "", ""
}

// required reports whether the field at p is there whenever what it is in is.
func required(kind schema.GroupVersionKind, p path) bool {
	t, known := scheme.Scheme.AllKnownTypes()[kind]
	if !known {
		return false
	}
	for i, name := range p {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Slice:
			t = t.Elem()
			continue
		case reflect.Struct:
		default:
			return false
		}
		field, ok := fieldNamed(t, name)
		if !ok {
			return false
		}
		if i == len(p)-1 {
			return !strings.Contains(field.Tag.Get("json"), "omitempty") && !strings.Contains(field.Tag.Get("json"), "omitzero")
		}
		t = field.Type
	}
	return false
}

// fieldNamed returns the field of a struct that has a name in JSON.
func fieldNamed(t reflect.Type, wanted string) (reflect.StructField, bool) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == wanted {
			return field, true
		}
		if name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct {
			if inner, ok := fieldNamed(field.Type, wanted); ok {
				return inner, true
			}
		}
	}
	return reflect.StructField{}, false
}
