package usher_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// TestWhyUsherEnded is told where the sandbox was started: a port in use, for example.
func TestWhyUsherEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary := filepath.Join(dir, "usher")
	const why = "open the port of the API: listen tcp 127.0.0.1:8445: bind: address already in use"
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho starting\necho '"+why+"' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	process, err := usher.Start(usher.Config{Binary: binary, Dir: filepath.Join(dir, "of usher")})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"ready": process.WaitReady(t.Context()), "wait": process.Wait(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "usher ended: exit status 1: ") || !strings.HasSuffix(err.Error(), "ends with: "+why) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
