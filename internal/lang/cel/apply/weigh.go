package apply

import "sigs.k8s.io/structured-merge-diff/v6/schema"

// mostExplained is the weight of an object in which errors are looked for: each has a path.
const mostExplained = 1 << 20

const (
	// copiedBytes is the weight of an entry or an element that a merge copies, and the operations after it.
	copiedBytes = 20
	// indexBytes is the length of an index in a path, scalarBytes that of a number, and quotedBytes that of a
	// quoted character.
	indexBytes, scalarBytes, quotedBytes = 8, 24, 4
)

// Weigh returns what a merge takes that does not follow from the weight of the configuration: at least the
// bytes of the paths of all its values, one of which is in each operation and in each error, and a number of
// bytes for each entry and element of the object that is copied.
func (s *Schema) Weigh(object, configuration map[string]any) int64 {
	return s.weigh(s.root, object, configuration, 0)
}

// weigh weighs the merge of a value at a path of some length.
func (s *Schema) weigh(ref schema.TypeRef, old, set any, path int64) int64 {
	atom, _ := s.types.Resolve(ref)
	weight := path
	switch set := set.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		weight += copiedBytes * int64(len(before))
		for name, member := range set {
			var of schema.TypeRef
			if atom.Map != nil {
				of = fieldType(atom.Map, name)
			}
			weight += s.weigh(of, before[name], member, path+1+int64(len(name)))
		}
	case []any:
		list := schema.List{}
		if atom.List != nil {
			list = *atom.List
		}
		// Which elements of the object are merged with these is not known.
		weight += copiedBytes * values(old)
		for _, element := range set {
			weight += s.weigh(list.ElementType, nil, element, path+keyBytes(&list, element))
		}
	}
	return weight
}

// keyBytes is at least the length of what a path has for an element of a list.
func keyBytes(t *schema.List, element any) int64 {
	length := int64(indexBytes)
	if fields, ok := element.(map[string]any); ok {
		for _, name := range t.Keys {
			length += indexBytes + int64(len(name)) + printedBytes(fields[name])
		}
		return length
	}
	if len(t.Keys) == 0 && t.ElementRelationship == schema.Associative {
		length += printedBytes(element)
	}
	return length
}

// printedBytes is at least the length of a value in a path.
func printedBytes(value any) int64 {
	switch v := value.(type) {
	case string:
		return scalarBytes + quotedBytes*int64(len(v))
	case map[string]any:
		length := int64(scalarBytes)
		for name, member := range v {
			length += int64(len(name)) + printedBytes(member)
		}
		return length
	case []any:
		length := int64(scalarBytes)
		for _, element := range v {
			length += printedBytes(element)
		}
		return length
	}
	return scalarBytes
}

// values is the number of values in a value.
func values(value any) int64 {
	n := int64(1)
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			n += values(member)
		}
	case []any:
		for _, element := range v {
			n += values(element)
		}
	}
	return n
}
