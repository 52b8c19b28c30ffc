package admission

// MaxDepth is how deep values may be nested.
const MaxDepth = maxDepth

// Scan steps over data, which is to be one JSON value.
func Scan(data []byte) error {
	s := &scanner{data: data}
	if _, err := s.value(); err != nil {
		return err
	}
	return s.end()
}
