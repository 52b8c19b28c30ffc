package rule

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unique"
)

// A Memo keeps what programs find out about the objects of one [Input], for the programs that get the
// same objects after them. The zero Memo is empty. It is not safe for concurrent use: a program uses it
// only before Run returns, and not in other goroutines.
type Memo struct {
	kept   []any
	common Common
	values []any
}

// A Lasting is kept by a memo when an object has changed.
type Lasting interface {
	// Outdate forgets what depends on the objects.
	Outdate()
}

// Reset empties a memo, because an object has changed.
func (m *Memo) Reset() {
	m.kept = slices.DeleteFunc(m.kept, func(value any) bool {
		lasting, ok := value.(Lasting)
		if ok {
			lasting.Outdate()
		}
		return !ok
	})
	clear(m.values)
}

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

// A Digest identifies a text. The zero Digest is that of none.
type Digest = unique.Handle[[sha256.Size]byte]

// DigestOf returns the digest of texts.
func DigestOf(texts ...string) Digest {
	hash := sha256.New()
	for _, text := range texts {
		// With its length, the end of a text cannot be taken for the beginning of the next one.
		hash.Write(binary.AppendUvarint(nil, uint64(len(text))))
		hash.Write([]byte(text))
	}
	return unique.Make([sha256.Size]byte(hash.Sum(nil)))
}

// A Shared identifies what an expression or a selector makes of the objects of an [Input], of their
// namespace, and of the params of its policy if it reads them.
type Shared struct{ Expression, Params Digest }

// A Sharer is a program that computes values which other programs may compute, too.
type Sharer interface {
	// SharedValues returns these values. Of some the program may find out that it does not need them.
	SharedValues() []Shared
}

// Common are the values that are computed several times, with their places in a memo.
type Common map[Shared]int

// CommonOf returns the values that rules compute several times.
func CommonOf(rules []*Rule) Common {
	var common Common
	seen := map[Shared]bool{}
	for _, r := range rules {
		for i := range r.Steps {
			s, ok := r.Steps[i].Program.(Sharer)
			if !ok {
				continue
			}
			for _, value := range s.SharedValues() {
				if _, known := common[value]; !known && seen[value] {
					if common == nil {
						common = Common{}
					}
					common[value] = len(common)
				}
				seen[value] = true
			}
		}
	}
	return common
}

// Share has the memo keep the common values of the rules that run next.
func (m *Memo) Share(common Common) {
	m.common, m.values = common, nil
	if len(common) > 0 {
		m.values = make([]any, len(common))
	}
}

// Place returns where a memo keeps a value, which is nil until it is known. The place is nil if no other
// program needs the value. It is valid until the program returns.
func (m *Memo) Place(of Shared) *any {
	if m == nil {
		return nil
	}
	if i, ok := m.common[of]; ok {
		return &m.values[i]
	}
	return nil
}
