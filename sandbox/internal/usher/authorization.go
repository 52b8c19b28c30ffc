package usher

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/usher-dev/usher/sandbox/internal/port"
)

// Authorization writes what usher and API servers need for API servers to ask it to authorize requests: a certificate, a
// token and an AuthorizationConfiguration, all in dir, which is that of usher. It returns the file for API servers and the
// flags of `usher serve`.
func Authorization(ctx context.Context, binary, dir string) (config string, flags []string, err error) {
	number, err := port.Free()
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("configure authorization: %w", err)
	}
	address, token, out := "127.0.0.1:"+number, filepath.Join(dir, "token"), filepath.Join(dir, "authorization")
	if err := os.WriteFile(token, []byte(rand.Text()+"\n"), 0o600); err != nil {
		return "", nil, fmt.Errorf("configure authorization: %w", err)
	}
	certificates := filepath.Join(dir, certificatesFolder)
	for _, args := range [][]string{
		{"certs", "--ip", "127.0.0.1", "--out", certificates},
		// Policies in the cluster are not known yet, and change.
		{"authz", "config", "--server", "https://" + address, "--ca-file", filepath.Join(certificates, "ca.crt"), "--token-file", token, "--match", "all", "--out", out},
	} {
		if said, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("configure authorization: usher %s: %w: %s", args[0], err, said)
		}
	}
	return filepath.Join(out, "authorization.yaml"), []string{"--authorization-address=" + address, "--authorization-token-file=" + token}, nil
}
