//go:build unix

package packs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/internal/artifact/artifacttest"
)

// TestVerifierThatHangs: a program that neither reads nor ends, and what it has started, is given up in time.
func TestVerifierThatHangs(t *testing.T) {
	bin := t.TempDir()
	started := filepath.Join(bin, "started")
	program := "#!/bin/sh\ntrap '' TERM INT\n: >" + started + "\nsleep 20 &\nwait\nsleep 20\n"
	if err := os.WriteFile(filepath.Join(bin, "usher-verify"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := artifacttest.Start(t)
	ref, err := artifact.Parse("oci://" + r.Host + "/acme:1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := artifact.Push(t.Context(), ref, map[string][]byte{"pack.yaml": []byte("a: 1\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Sign(t, digest, make([]byte, 200<<10))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, _, _, err = packs.Pull(ctx, ref, "acme.pub")
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("%v", err)
	}
}
