package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// A lack is a problem with every object that has no field at a path; with every object at all without a path.
type lack struct {
	at      path
	problem int
	// given are the names of the given objects that have the problem.
	given []string
}

// given tries the objects that were given. What is said of every such object is not said of one of them again.
func (t *run) given(ctx context.Context, objects []map[string]any) {
	for _, object := range objects {
		if kindOf(object) != t.of {
			continue
		}
		leave := t.enter(namespaceOf(object, objects))
		for _, operation := range t.operations() {
			failure := t.failure(ctx, operation, object)
			if failure == nil {
				continue
			}
			p := t.problem(
				fmt.Sprintf("%s of the %s %s that is given would be refused, because the rule fails: %s", operation, t.of.Kind, nameIn(object), reason(failure)),
				t.remedy([]usher.Operation{operation}))
			i := slices.IndexFunc(t.lacks, func(l lack) bool { return t.problems[l.problem].Field == p.Field && lacks(object, l.at) })
			if i < 0 {
				t.problems = append(t.problems, p)
			} else {
				t.lacks[i].given = append(t.lacks[i].given, nameIn(object))
			}
			break
		}
		leave()
	}
	for _, l := range t.lacks {
		if len(l.at) > 0 && len(l.given) > 0 {
			described := l.at.lacking()
			p := &t.problems[l.problem]
			p.What = strings.Replace(p.What, described, described+", as "+listed(l.given), 1)
		}
	}
}

// namespaceOf returns the namespace of an object if it is among objects, or nil.
func namespaceOf(object map[string]any, objects []map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	in, _ := metadata["namespace"].(string)
	i := slices.IndexFunc(objects, func(o map[string]any) bool {
		return in != "" && o["apiVersion"] == "v1" && o["kind"] == "Namespace" && nameIn(o) == in
	})
	if i < 0 {
		return nil
	}
	return objects[i]
}

// enter has the world be one with a namespace that was given, until the function that it returns is called. Nil
// changes nothing.
func (t *run) enter(namespace map[string]any) (leave func()) {
	if namespace == nil {
		return func() {}
	}
	settled, before := t.settled, t.world.put(namespace)
	t.settled = true
	return func() {
		t.settled = settled
		t.world.put(before)
	}
}

// mostGiven limits how many objects a problem names.
const mostGiven = 3

// listed names objects that were given.
func listed(names []string) string {
	more := ""
	if len(names) > mostGiven {
		more = fmt.Sprintf(" and %d more", len(names)-mostGiven)
		names = names[:mostGiven]
	}
	return strings.Join(names, ", ") + more + " of those given,"
}

// nameIn returns the name of an object, or what it is generated from.
func nameIn(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); name != "" {
		return name
	}
	if prefix, _ := metadata["generateName"].(string); prefix != "" {
		return prefix + "*"
	}
	return "without a name"
}

// lacks reports whether a tree, or an element of a list in it, has nothing at a path.
func lacks(tree any, at path) bool {
	if len(at) == 0 {
		return true
	}
	if at[0] == rule.Element {
		list, _ := tree.([]any)
		return slices.ContainsFunc(list, func(element any) bool { return len(at) > 1 && lacks(element, at[1:]) })
	}
	object, _ := tree.(map[string]any)
	value, has := object[at[0]]
	return !has || len(at) > 1 && lacks(value, at[1:])
}
