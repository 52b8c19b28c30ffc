package cli

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/printable"
)

// A Screen is where commands print. It shows escapes in place of characters that are not printed,
// except those of its own palettes: what others write into objects and policies controls no terminal,
// on any way through a command. It is safe for concurrent use.
type Screen struct {
	out io.Writer
	// mark is what escape sequences of commands begin with. Text of others cannot contain it, since
	// nobody knows it before the command prints.
	mark string

	mu sync.Mutex
	// held is the beginning of a character or a mark, of which the rest is to come.
	held []byte
}

// NewScreen returns a screen that prints to out.
func NewScreen(out io.Writer) *Screen {
	return &Screen{out: out, mark: escape + rand.Text()}
}

// escape begins what terminals act on.
const escape = "\x1b"

// Write implements [io.Writer].
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := p
	if len(s.held) > 0 {
		text = append(s.held, p...)
		s.held = nil
	}
	if unmarked(text) < len(text) {
		text = s.shown(text)
	}
	if _, err := s.out.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush prints what of the last character has come.
func (s *Screen) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Who would be told of an error has ended.
	_, _ = io.WriteString(s.out, printable.Lines(string(s.held)))
	s.held = nil
}

// shown returns text as it is printed, and holds its end if that is not complete.
func (s *Screen) shown(text []byte) []byte {
	shown := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		n := unmarked(text)
		shown = append(shown, text[:n]...)
		text = text[n:]
		rest := string(text[:min(len(text), max(len(s.mark), utf8.UTFMax))])
		switch {
		case rest == "":
		case strings.HasPrefix(rest, s.mark):
			shown, text = append(shown, escape...), text[len(s.mark):]
		case strings.HasPrefix(s.mark, rest), !utf8.FullRuneInString(rest):
			s.held, text = bytes.Clone(text), nil
		default:
			_, size := utf8.DecodeRuneInString(rest)
			shown, text = append(shown, printable.Escaped(rest[:size])...), text[size:]
		}
	}
	return shown
}

// unmarked returns how much of text is certainly printed as it is.
func unmarked(text []byte) int {
	for i, c := range text {
		if c > '~' || c < ' ' && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(text)
}

// escapeOf returns what begins escape sequences that w shows.
func escapeOf(w io.Writer) string {
	if s, ok := w.(*Screen); ok {
		return s.mark
	}
	return escape
}

// Pipe returns what w prints to, for messages of a protocol: a program reads them, and no terminal shows them. They
// must not have characters of others that are not printed.
func Pipe(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.out
	}
	return w
}

// FileOf returns the file that w prints to; nil if it is none.
func FileOf(w io.Writer) *os.File {
	if s, ok := w.(*Screen); ok {
		w = s.out
	}
	file, _ := w.(*os.File)
	return file
}
