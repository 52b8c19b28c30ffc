// Usher-verify verifies the signatures of packs for usher, as cosign makes them: by a public key, or by the identity
// that a certificate of Sigstore names. It calls nobody: bundles are read from its input, keys and roots from files.
// It is a program and a module of its own, so that Sigstore's modules are no dependencies of those who import Usher.
//
//	usher-verify --digest sha256:... --signed-by cosign.pub < bundle.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "usher-verify:", err)
		os.Exit(1)
	}
}

// run says in one line who signed what has the digest, or returns why nobody did who is trusted.
func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("usher-verify", flag.ContinueOnError)
	digest := flags.String("digest", "", "digest of what is signed: sha256:...")
	by := flags.String("signed-by", "", "file that says whose signature counts: a public key in PEM, or YAML with identity or identityRegexp, issuer and trustedRoot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *digest == "" || *by == "" || flags.NArg() > 0 {
		return errors.New("--digest and --signed-by are required, and bundles are read from the input")
	}
	of, err := parseDigest(*digest)
	if err != nil {
		return err
	}
	t, err := readTrust(*by)
	if err != nil {
		return fmt.Errorf("--signed-by %s: %w", *by, err)
	}
	bundles, err := readBundles(in)
	if err != nil {
		return fmt.Errorf("read bundles: %w", err)
	}
	who, err := t.verify(bundles, of)
	if err == nil {
		_, err = fmt.Fprintf(out, "%q\n", who)
	}
	return err
}
