package jsontree

// Size returns the number of bytes of all texts and keys in a value of a tree, and one for each value
// and each entry. No JSON of the value is shorter, counted in characters. It also returns the length of
// the longest list or map.
func Size(value any) (size, longest int) {
	switch v := value.(type) {
	case map[string]any:
		size, longest = 1+len(v), len(v)
		for key, value := range v {
			own, most := Size(value)
			size, longest = size+len(key)+own, max(longest, most)
		}
		return size, longest
	case []any:
		size, longest = 1+len(v), len(v)
		for _, value := range v {
			own, most := Size(value)
			size, longest = size+own, max(longest, most)
		}
		return size, longest
	case string:
		return 1 + len(v), 0
	}
	return 1, 0
}
