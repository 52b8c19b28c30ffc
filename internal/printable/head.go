package printable

import (
	"strings"
)

// A Head keeps the first Limit bytes that are written to it, such as those of the output of a program, which can be
// endless. It is for one goroutine at a time.
type Head struct {
	Limit int

	kept []byte
}

// Write implements [io.Writer]. It never fails: a program whose output is not read further waits forever.
func (h *Head) Write(text []byte) (int, error) {
	h.kept = append(h.kept, text[:min(len(text), h.Limit-len(h.kept))]...)
	return len(text), nil
}

// String returns what was kept, as valid UTF-8. It can have any characters.
func (h *Head) String() string { return strings.ToValidUTF8(string(h.kept), "") }
