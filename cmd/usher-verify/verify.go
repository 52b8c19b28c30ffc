package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"sigs.k8s.io/yaml"
)

const (
	// What is read: bundles, bytes in all of them, and in a file of trust.
	maxBundles = 20
	maxInput   = 8 << 20
	maxTrust   = 4 << 20
	// signs is the predicate of what cosign sign signs. A statement about a scan, by the same signer, is no
	// signature.
	signs = "https://sigstore.dev/cosign/sign/v1"
)

// A trust is whose signatures count.
type trust struct {
	verifier *verify.Verifier
	policy   verify.PolicyOption
	// key names the key, and is empty if identities count.
	key string
}

// A signer is who signs without a key of their own.
type signer struct {
	// Identity is the whole name in the certificate, and IdentityRegexp matches the whole name.
	Identity       string `json:"identity"`
	IdentityRegexp string `json:"identityRegexp"`
	Issuer         string `json:"issuer"`
	// TrustedRoot is a file, relative to this one.
	TrustedRoot string `json:"trustedRoot"`
}

func parseDigest(text string) ([]byte, error) {
	digest, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(digest) != 32 || !strings.HasPrefix(text, "sha256:") {
		return nil, fmt.Errorf("--digest %.100q: expected sha256: and 64 hexadecimal digits", text)
	}
	return digest, nil
}

// readTrust reads a public key, or a signer and the root that they are trusted by.
func readTrust(path string) (*trust, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return ofKey(text, filepath.Base(path))
	}
	var s signer
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return nil, fmt.Errorf("expected a public key in PEM, or YAML: %w", err)
	}
	if (s.Identity == "") == (s.IdentityRegexp == "") || s.Issuer == "" || s.TrustedRoot == "" {
		return nil, errors.New("expected identity or identityRegexp, and issuer and trustedRoot")
	}
	if !filepath.IsAbs(s.TrustedRoot) {
		s.TrustedRoot = filepath.Join(filepath.Dir(path), s.TrustedRoot)
	}
	return ofSigner(s)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxTrust+1))
	if err == nil && len(text) > maxTrust {
		err = fmt.Errorf("%s: larger than %d MiB", path, maxTrust>>20)
	}
	return text, err
}

func ofKey(text []byte, name string) (*trust, error) {
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	verifier, err := signature.LoadDefaultVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	// Whatever key a bundle says it is signed with, this one has to verify it.
	material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
	})
	v, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	return &trust{verifier: v, policy: verify.WithKey(), key: name}, err
}

func ofSigner(s signer) (*trust, error) {
	text, err := readFile(s.TrustedRoot)
	if err != nil {
		return nil, err
	}
	trusted, err := root.NewTrustedRootFromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("trustedRoot %s: %w", s.TrustedRoot, err)
	}
	if len(trusted.FulcioCertificateAuthorities()) == 0 {
		return nil, fmt.Errorf("trustedRoot %s: it has no certificate authorities", s.TrustedRoot)
	}
	if s.IdentityRegexp != "" {
		s.IdentityRegexp = "^(?:" + s.IdentityRegexp + ")$"
	}
	identity, err := verify.NewShortCertificateIdentity(s.Issuer, "", s.Identity, s.IdentityRegexp)
	if err != nil {
		return nil, err
	}
	// Certificates are valid for minutes: a log or an authority has to say when the signature was made.
	options := []verify.VerifierOption{verify.WithObserverTimestamps(1)}
	if len(trusted.RekorLogs()) > 0 {
		options = append(options, verify.WithTransparencyLog(1))
	}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	v, err := verify.NewVerifier(trusted, options...)
	return &trust{verifier: v, policy: verify.WithCertificateIdentity(identity)}, err
}

// readBundles reads bundles in JSON, one after the other.
func readBundles(in io.Reader) ([]json.RawMessage, error) {
	limited := &io.LimitedReader{R: in, N: maxInput + 1}
	decoder := json.NewDecoder(limited)
	var all []json.RawMessage
	for {
		var one json.RawMessage
		switch err := decoder.Decode(&one); {
		case limited.N <= 0:
			return nil, fmt.Errorf("more than %d MiB", maxInput>>20)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		if all = append(all, one); len(all) > maxBundles {
			return nil, fmt.Errorf("more than %d", maxBundles)
		}
	}
}

// verify returns who signed what has a digest: the first signer that is trusted.
func (t *trust) verify(bundles []json.RawMessage, digest []byte) (string, error) {
	if len(bundles) == 0 {
		return "", errors.New("it has no signature")
	}
	var problems []error
	for i, text := range bundles {
		who, err := t.verifyOne(text, digest)
		if err == nil {
			return who, nil
		}
		problems = append(problems, fmt.Errorf("signature %d: %w", i+1, short(err)))
	}
	return "", errors.Join(problems...)
}

func (t *trust) verifyOne(text []byte, digest []byte) (who string, err error) {
	// Bundles are written by others, and libraries that parse them are large: a panic is one more error.
	defer func() {
		if r := recover(); r != nil {
			who, err = "", errors.New("it cannot be read")
		}
	}()
	var b bundle.Bundle
	if err := b.UnmarshalJSON(text); err != nil {
		return "", err
	}
	result, err := t.verifier.Verify(&b, verify.NewPolicy(verify.WithArtifactDigest("sha256", digest), t.policy))
	if err != nil {
		return "", err
	}
	if result.Statement != nil && result.Statement.GetPredicateType() != signs {
		return "", fmt.Errorf("it is a statement of the type %.100q: expected %s", result.Statement.GetPredicateType(), signs)
	}
	if t.key != "" {
		return t.key, nil
	}
	return result.Signature.Certificate.SubjectAlternativeName, nil
}

// short returns an error that is one line without characters that control terminals.
func short(err error) error {
	const most = 300
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, err.Error())
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return errors.New(text)
}
