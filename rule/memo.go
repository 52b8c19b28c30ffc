package rule

// A Memo keeps what programs find out about the objects of one [Input], for the programs that get the
// same objects after them. The zero Memo is empty. It is not safe for concurrent use: a program uses it
// only before Run returns, and not in other goroutines.
type Memo struct{ kept []any }

// Reset empties a memo, because an object has changed.
func (m *Memo) Reset() { m.kept = nil }

// Kept returns the T of a memo, a zero T when it is asked for the first time.
func Kept[T any](m *Memo) *T {
	for _, value := range m.kept {
		if t, ok := value.(*T); ok {
			return t
		}
	}
	t := new(T)
	m.kept = append(m.kept, t)
	return t
}
