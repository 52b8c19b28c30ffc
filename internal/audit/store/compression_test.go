package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/audit/store"
)

// TestCompress compresses texts that are more or less like another one.
func TestCompress(t *testing.T) {
	t.Parallel()
	like := string(pod(1))
	long := strings.Repeat("long texts are compared as far as the dictionary goes. ", 1000)
	for _, row := range []struct {
		reason, like, text string
		// most is how large the compressed text may be.
		most int
	}{
		{"the same", like, like, 20},
		{"another object of the kind", like, string(pod(2)), 400},
		{"nothing in common", like, strings.Repeat("\x00\x01", 500), 1005},
		{"no text", like, "", 1},
		{"no dictionary", "", "some text", 20},
		{"a dictionary that is shorter than a word", "short", "shorter", 20},
		{"a part of the dictionary", like, like[100:200], 20},
		{"the dictionary many times", like[:50], strings.Repeat(like[:50], 100), 500},
		{"longer than the dictionary may be", long, long, 2000},
	} {
		compressed := store.Compress([]byte(row.like), []byte(row.text))
		if len(compressed) > row.most {
			t.Errorf("%s: %d bytes of %d are left, want at most %d", row.reason, len(compressed), len(row.text), row.most)
		}
		if text, err := store.Decompress([]byte(row.like), compressed); err != nil || string(text) != row.text {
			t.Errorf("%s: %v, decompressed: %.100q", row.reason, err, text)
		}
	}
}

// FuzzCompress compresses any text, and decompresses anything.
func FuzzCompress(f *testing.F) {
	f.Add(pod(1), pod(2))
	f.Add([]byte("a dictionary"), []byte("another dictionary, another dictionary"))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, like, text []byte) {
		compressed := store.Compress(like, text)
		if got, err := store.Decompress(like, compressed); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%v: %q, want %q", err, got, text)
		}
		if most := len(text) + len(text)/64 + 20; len(compressed) > most {
			t.Errorf("%d bytes become %d", len(text), len(compressed))
		}
		_, _ = store.Decompress(like, text)
	})
}

// pod returns a pod that differs from others in a few places.
func pod(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-%[1]d-7d9c5b8f6","namespace":"team-%[1]d","labels":{"app":"app-%[1]d","version":"v1"},`+
		`"managedFields":[%[2]s]},"spec":{"containers":[{"name":"web","image":"registry.example/web:%[1]d","resources":{"limits":{"cpu":"1","memory":"512Mi"}}}]}}`,
		n, strings.Repeat(`{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","fieldsV1":{"f:metadata":{}}},`, 8)+`{"manager":"kubelet"}`)
}
