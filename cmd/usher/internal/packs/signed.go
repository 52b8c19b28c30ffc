package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// verifier is the program that verifies signatures. It is one of its own, so that Sigstore's modules are no
	// dependencies of those who import Usher.
	verifier = "usher-verify"
	// verifyTime is how long it may take.
	verifyTime = time.Minute
	// maxReason is how much of what it says is shown, in bytes.
	maxReason = 4 << 10
)

var errVerifyTime = fmt.Errorf("%s was stopped: it took more than %s", verifier, verifyTime)

// SignedBy is what the flag --signed-by says, wherever packs are read from registries.
const SignedBy = "file that says whose signature packs in registries must have: a public key in PEM, or YAML with identity or identityRegexp, issuer and trustedRoot; usher-verify, beside usher or in the $PATH, verifies it"

// verify returns why what has a digest is not signed by whom a file names, or nil.
func verify(ctx context.Context, ref artifact.Reference, digest, by string) error {
	program, err := findVerifier()
	if err != nil {
		return fmt.Errorf("--signed-by: %w: install it beside usher: archives of releases have both, and make verify builds it in a clone", err)
	}
	signatures, err := artifact.Signatures(ctx, ref, digest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, verifyTime, errVerifyTime)
	defer cancel()
	run := exec.CommandContext(ctx, program, "--digest="+digest, "--signed-by="+by)
	run.Stdin = bytes.NewReader(bytes.Join(signatures, []byte("\n")))
	// Whatever it starts is not waited for.
	run.WaitDelay = time.Second
	said := &printable.Head{Limit: maxReason}
	run.Stderr = said
	if err := run.Run(); err != nil {
		if text := printable.Words(said.String()); ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if text != "" {
			err = errors.New(text)
		}
		return fmt.Errorf("%s is not signed by %s: %w", ref.At(digest), by, err)
	}
	return nil
}

// findVerifier returns the path of usher-verify: where this program is, as in archives of releases and where krew puts
// them, or in the $PATH.
func findVerifier() (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), verifier)); err == nil {
				return beside, nil
			}
		}
	}
	return exec.LookPath(verifier)
}
