package interpret

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

var errPath = errors.New("a path of a patch leads nowhere")

// furthest is how far behind the end of a list a patch may add an element.
const furthest = 1000

// edited applies a JSON patch. What is on the way to an added value is made, what is removed may be absent, and
// negative places of lists count from the end.
func edited(object map[string]any, operations any) (map[string]any, error) {
	list, ok := operations.([]any)
	if !ok {
		return nil, errors.New("a patch is no list")
	}
	var of any = object
	for _, each := range list {
		fields, _ := each.(map[string]any)
		op, _ := fields["op"].(string)
		path, _ := fields["path"].(string)
		names := strings.Split(path, "/")
		if len(names) < 2 || names[0] != "" || op != "add" && op != "replace" && op != "remove" {
			return nil, &Unread{fmt.Sprintf("the operation %s of %q", op, path)}
		}
		value, there := fields["value"]
		if !there && op != "remove" {
			return nil, errors.New("an operation has no value")
		}
		var err error
		if of, err = (edit{op, value}).at(of, names[1:]); err != nil {
			return nil, err
		}
	}
	changed, ok := of.(map[string]any)
	if !ok {
		return nil, errors.New("a patch makes no object")
	}
	return changed, nil
}

// An edit is one operation.
type edit struct {
	op    string
	value any
}

// at returns a value that is edited at a path.
func (e edit) at(of any, path []string) (any, error) {
	switch v := of.(type) {
	case map[string]any:
		return e.field(v, path)
	case []any:
		return e.item(v, path)
	}
	return nil, errPath
}

func (e edit) field(of map[string]any, path []string) (any, error) {
	name := strings.ReplaceAll(strings.ReplaceAll(path[0], "~1", "/"), "~0", "~")
	old, there := of[name]
	all := maps.Clone(of)
	switch {
	case len(path) > 1:
		inner, err := e.below(old, path[1:])
		if err != nil || inner == nil {
			return of, err
		}
		all[name] = inner
	case e.op == "remove":
		delete(all, name)
	case e.op == "replace" && !there:
		return nil, errPath
	default:
		all[name] = e.value
	}
	return all, nil
}

// below returns a value that is edited at a path, nil if there is none and none is made.
func (e edit) below(old any, path []string) (any, error) {
	switch {
	case old != nil:
		return e.at(old, path)
	case e.op == "remove":
		return nil, nil
	case e.op == "replace":
		return nil, errPath
	}
	place, err := strconv.Atoi(path[0])
	switch {
	case err != nil && path[0] != "-":
		return e.at(map[string]any{}, path)
	case place < -1 || place > furthest:
		return nil, errPath
	}
	return e.at(make([]any, max(place, 0)), path)
}

func (e edit) item(of []any, path []string) (any, error) {
	last := len(path) == 1
	if path[0] == "-" {
		return e.append(of, path)
	}
	place, err := e.place(of, path[0], last)
	if err != nil {
		return nil, err
	}
	beyond := place < 0 || place >= len(of)
	switch {
	case beyond && e.op == "remove":
		return of, nil
	case beyond && (e.op == "replace" || place < 0 || place > len(of) && last || place > len(of)+furthest):
		return nil, errPath
	case last && e.op == "add":
		return slices.Insert(slices.Clone(of), place, e.value), nil
	case last && e.op == "remove":
		return slices.Delete(slices.Clone(of), place, place+1), nil
	}
	all := slices.Clone(of)
	for len(all) <= place {
		all = append(all, nil)
	}
	if last {
		all[place] = e.value
		return all, nil
	}
	inner, err := e.below(all[place], path[1:])
	if err != nil || inner == nil {
		return of, err
	}
	all[place] = inner
	return all, nil
}

// append adds an element to a list.
func (e edit) append(of []any, path []string) (any, error) {
	switch {
	case e.op != "add":
		return nil, errPath
	case len(path) == 1:
		return append(slices.Clone(of), e.value), nil
	}
	made, err := e.below(nil, path[1:])
	return append(slices.Clone(of), made), err
}

// place returns the place of a list that a name is.
func (e edit) place(of []any, name string, last bool) (int, error) {
	place, err := strconv.Atoi(name)
	if err != nil {
		return 0, errPath
	}
	if place < 0 {
		place += len(of)
		if e.op == "add" && (last || place == -1) {
			// It is behind the last element, or the first one of all.
			place++
		}
	}
	return place, nil
}
