package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/audit"
)

// TestPack packs texts that are more or less like another one.
func TestPack(t *testing.T) {
	t.Parallel()
	like := string(pod(1))
	long := strings.Repeat("long texts are compared as far as the pattern goes. ", 1000)
	for _, row := range []struct {
		reason, like, text string
		// most is how large the packed text may be.
		most int
	}{
		{"the same", like, like, 20},
		{"another object of the kind", like, string(pod(2)), 400},
		{"nothing in common", like, strings.Repeat("\x00\x01", 500), 1005},
		{"no text", like, "", 1},
		{"no pattern", "", "some text", 20},
		{"a pattern that is shorter than a word", "short", "shorter", 20},
		{"a part of the pattern", like, like[100:200], 20},
		{"the pattern many times", like[:50], strings.Repeat(like[:50], 100), 500},
		{"longer than the pattern may be", long, long, 2000},
	} {
		packed := audit.Pack([]byte(row.like), []byte(row.text))
		if len(packed) > row.most {
			t.Errorf("%s: %d bytes of %d are left, want at most %d", row.reason, len(packed), len(row.text), row.most)
		}
		if text, err := audit.Unpack([]byte(row.like), packed); err != nil || string(text) != row.text {
			t.Errorf("%s: %v, unpacked: %.100q", row.reason, err, text)
		}
	}
}

// FuzzPack packs any text, and unpacks anything.
func FuzzPack(f *testing.F) {
	f.Add(pod(1), pod(2))
	f.Add([]byte("a pattern"), []byte("another pattern, another pattern"))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, like, text []byte) {
		packed := audit.Pack(like, text)
		if got, err := audit.Unpack(like, packed); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%v: %q, want %q", err, got, text)
		}
		if most := len(text) + len(text)/64 + 20; len(packed) > most {
			t.Errorf("%d bytes become %d", len(text), len(packed))
		}
		_, _ = audit.Unpack(like, text)
	})
}
