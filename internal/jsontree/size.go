package jsontree

// Size returns the number of bytes of all texts and keys in a value of a tree, and one for each value
// and each entry. No JSON of the value is shorter, counted in characters.
func Size(value any) int {
	switch v := value.(type) {
	case map[string]any:
		size := 1 + len(v)
		for key, value := range v {
			size += len(key) + Size(value)
		}
		return size
	case []any:
		size := 1 + len(v)
		for _, value := range v {
			size += Size(value)
		}
		return size
	case string:
		return 1 + len(v)
	}
	return 1
}
