package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// SignedBy is what the flag --signed-by says, wherever packs are read from registries.
const SignedBy = "file that says whose signature packs in registries must have: a public key in PEM, or YAML with identity or identityRegexp, issuer and trustedRoot; usher-verify, from the $PATH, verifies it"

// verify returns why what has a digest is not signed by whom a file names, or nil.
func verify(ctx context.Context, ref artifact.Reference, digest, by string) error {
	program, err := exec.LookPath(verifier)
	if err != nil {
		return fmt.Errorf("--signed-by: %w: install it beside usher", err)
	}
	signatures, err := artifact.Signatures(ctx, ref, digest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	run := exec.CommandContext(ctx, program, "--digest="+digest, "--signed-by="+by)
	run.Stdin = bytes.NewReader(bytes.Join(signatures, []byte("\n")))
	// Whatever it starts is not waited for.
	run.WaitDelay = time.Second
	said := &beginning{}
	run.Stderr = said
	if err := run.Run(); err != nil {
		if text := printable.Words(said.text.String()); text != "" && ctx.Err() == nil {
			err = errors.New(text)
		}
		return fmt.Errorf("%s is not signed by %s: %w", ref.At(digest), by, err)
	}
	return nil
}

// A beginning keeps the first [maxReason] bytes of what is written. The buffer is no embedded one, whose ReadFrom would
// keep all.
type beginning struct{ text bytes.Buffer }

// Write implements [io.Writer].
func (b *beginning) Write(p []byte) (int, error) {
	_, _ = b.text.Write(p[:min(len(p), maxReason-b.text.Len())])
	return len(p), nil
}
