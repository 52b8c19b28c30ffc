package jsontree

// A Size is that of a tree.
type Size struct {
	// Total is the number of bytes of all texts and keys, and one for each value and each entry. No JSON
	// is shorter, counted in characters.
	Total int
	// Longest is the length of the longest list or map.
	Longest int
}

// SizeOf returns the size of a value of a tree.
func SizeOf(value any) Size {
	var s Size
	s.add(value)
	return s
}

func (s *Size) add(value any) {
	switch v := value.(type) {
	case map[string]any:
		s.container(len(v))
		for key, value := range v {
			s.Total += len(key)
			s.add(value)
		}
	case []any:
		s.container(len(v))
		for _, value := range v {
			s.add(value)
		}
	default:
		s.scalar(value)
	}
}

// container adds a list or map without its entries.
func (s *Size) container(length int) {
	s.Total += 1 + length
	s.Longest = max(s.Longest, length)
}

func (s *Size) scalar(value any) {
	text, _ := value.(string)
	s.Total += 1 + len(text)
}
