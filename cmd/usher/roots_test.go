package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRootsWithoutFiles is about the image, which has no files but the binary: policies reach
// HTTPS services with the authorities that are compiled in.
func TestRootsWithoutFiles(t *testing.T) {
	t.Parallel()
	const child = "USHER_TEST_ROOTS"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestRootsWithoutFiles$")
		nowhere := filepath.Join(t.TempDir(), "nowhere")
		command.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE="+nowhere, "SSL_CERT_DIR="+nowhere)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("without files: %v: %s", err, out)
		}
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil || pool.Equal(x509.NewCertPool()) {
		t.Errorf("no authority is trusted: %v", err)
	}
}
