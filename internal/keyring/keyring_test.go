package keyring_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/keyring"
)

func TestKeysAreNotPrinted(t *testing.T) {
	t.Parallel()
	k, err := keyring.KeyOf(bytes.Repeat([]byte{'k'}, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("key", "key", k, "keys", keyring.Keys{Current: k})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("key", "key", k, "keys", keyring.Keys{Current: k})
	fmt.Fprintf(&log, "%v %+v %#v %s %v", k, k, k, k, keyring.Keys{Current: k})
	if text := log.String(); strings.Contains(text, "kkkk") || strings.Contains(text, "6b6b6b") || strings.Contains(text, "107 107") {
		t.Errorf("a key was printed: %s", text)
	}
}
