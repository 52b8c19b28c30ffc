package trial

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// mostCrowded limits the objects with several elements in a list, and mostElements the elements.
	mostCrowded  = 60
	mostElements = 12
	// mostPooled limits the different elements of a list.
	mostPooled = 6
)

// crowded returns objects with as many elements in the lists that are read as the constants say, and one more or less:
// some with the same elements, some with different ones, which are those of the objects.
func (m *maker) crowded(objects []map[string]any, constants []any) []map[string]any {
	sizes := []int{2}
	for _, c := range constants {
		if n, ok := c.(int64); ok && n > 1 && n <= mostElements && !slices.Contains(sizes, int(n)) {
			sizes = append(sizes, int(n))
		}
	}
	lists := m.lists()
	var all []map[string]any
	for _, at := range lists {
		pool := elementsAt(objects, at)
		for i := range min(2*len(pool)*len(sizes), mostCrowded/len(lists)) {
			// Each size is tried with each element; then with each element and those behind it.
			round := i / len(sizes)
			list := make([]any, sizes[i%len(sizes)])
			for k := range list {
				list[k] = numbered(pool[(round+k*(round/len(pool)))%len(pool)], k)
			}
			all = append(all, with(objects[round%len(objects)], at, list))
		}
	}
	return all
}

// lists returns the lists that are read, or whose elements are.
func (m *maker) lists() []path {
	var all []path
	for i := range m.uses {
		for _, p := range m.uses[i].Paths {
			for end := 1; end <= len(p); end++ {
				at := m.set.Follow(m.like, p[:end]).At
				known := slices.ContainsFunc(all, func(other path) bool { return slices.Equal(other, p[:end]) })
				if at != nil && at.Kind() == kind.List && !known && len(all) < mostSampled {
					all = append(all, p[:end])
				}
			}
		}
	}
	return all
}

// elementsAt returns different elements that objects have in a list, from all over the objects.
func elementsAt(objects []map[string]any, at path) []any {
	var all []any
	seen := map[string]bool{}
	var walk func(tree any, p path)
	walk = func(tree any, p path) {
		list, isList := tree.([]any)
		object, isObject := tree.(map[string]any)
		switch {
		case len(p) == 0 && isList:
			for _, element := range list {
				if text := fmt.Sprint(element); !seen[text] {
					seen[text] = true
					all = append(all, element)
				}
			}
		case isList && p[0] == rule.Element:
			for _, element := range list {
				walk(element, p[1:])
			}
		case isObject && len(p) > 0:
			walk(object[p[0]], p[1:])
		}
	}
	for _, object := range objects {
		walk(object, at)
	}
	every := (len(all) + mostPooled - 1) / mostPooled
	var some []any
	for i := 0; i < len(all); i += every {
		some = append(some, all[i])
	}
	return some
}

// numbered returns an element with another name than those before it: in most lists of objects these are keys.
func numbered(element any, i int) any {
	object, _ := element.(map[string]any)
	if name, ok := object["name"].(string); ok && i > 0 {
		object = maps.Clone(object)
		object["name"] = name + "-" + strconv.Itoa(i)
		return object
	}
	return element
}
