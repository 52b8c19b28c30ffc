package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	jane     = "jane@acme.example"
	issuer   = "https://accounts.acme.example"
	manifest = `{"schemaVersion":2}`
)

// digestOf is the digest of content, in hexadecimal digits.
func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// statement is what cosign signs about content.
func statement(content, predicate string) []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + digestOf(content) + `"}}],"predicateType":"` + predicate + `","predicate":{}}`)
}

// A sigstore is one of this test's own, with the file of its root.
type sigstore struct {
	*ca.VirtualSigstore
	folder string
}

func start(t *testing.T) *sigstore {
	t.Helper()
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	logs := virtual.RekorLogs()
	for id, log := range logs {
		// In files it is binary.
		if log.ID, err = hex.DecodeString(id); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, virtual.FulcioCertificateAuthorities(), nil, virtual.TimestampingAuthorities(), logs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := trusted.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	s := &sigstore{virtual, t.TempDir()}
	s.write(t, "root.json", string(text))
	return s
}

// write writes a file beside the root, and returns its path.
func (s *sigstore) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sign returns a bundle with a statement, as cosign keeps it in a registry.
func (s *sigstore) sign(t *testing.T, identity string, statement []byte) string {
	t.Helper()
	entity, err := s.AttestAtTime(identity, issuer, statement, time.Now().Add(5*time.Minute), true)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	verification, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	times, err := entity.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	entry := entries[0].TransparencyLogEntry()
	entry.KindVersion = &rekor.KindVersion{Kind: "dsse", Version: "0.0.1"}
	envelope := signed.EnvelopeContent().RawEnvelope()
	return marshal(t, &protobundle.Bundle{
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:     &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: verification.Certificate().Raw}},
			TlogEntries: []*rekor.TransparencyLogEntry{entry},
			TimestampVerificationData: &protobundle.TimestampVerificationData{
				Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: times[0]}},
			},
		},
	}, statement, decoded(t, envelope.Signatures[0].Sig))
}

// marshal completes a bundle with the statement that it signs.
func marshal(t *testing.T, b *protobundle.Bundle, statement, sig []byte) string {
	t.Helper()
	b.MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: statement, PayloadType: "application/vnd.in-toto+json", Signatures: []*protodsse.Signature{{Sig: sig}},
	}}
	text, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	var sig []byte
	if err := json.Unmarshal([]byte(`"`+text+`"`), &sig); err != nil {
		t.Fatal(err)
	}
	return sig
}

// withKey signs a statement with a key.
func withKey(t *testing.T, key *ecdsa.PrivateKey, statement []byte) string {
	t.Helper()
	digest := sha256.Sum256(preauthenticated(statement))
	sig, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return marshal(t, &protobundle.Bundle{VerificationMaterial: &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "whatever"}},
	}}, statement, sig)
}

// preauthenticated is what the signatures of an envelope sign: https://github.com/secure-systems-lab/dsse.
func preauthenticated(statement []byte) []byte {
	const kind = "application/vnd.in-toto+json"
	return []byte("DSSEv1 28 " + kind + " " + decimal(len(statement)) + " " + string(statement))
}

func decimal(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func newKey(t *testing.T) (key *ecdsa.PrivateKey, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var of crypto.PublicKey = key.Public()
	text, err := cryptoutils.MarshalPublicKeyToPEM(of)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(text)
}

// TestVerify: only who is trusted signs, only what has the digest, and only as a signature.
func TestVerify(t *testing.T) {
	t.Parallel()
	s, other := start(t), start(t)
	key, public := newKey(t)
	otherKey, otherPublic := newKey(t)
	trusting := func(line string) string {
		return s.write(t, digestOf(line)[:8]+".yaml", line+"\nissuer: "+issuer+"\ntrustedRoot: root.json\n")
	}
	byJane := trusting("identity: " + jane)
	byKey := s.write(t, "cosign.pub", public)
	signed, byTheKey := s.sign(t, jane, statement(manifest, signs)), withKey(t, key, statement(manifest, signs))
	for _, row := range []struct{ reason, by, bundles, want, err string }{
		{"the identity", byJane, signed, jane, ""},
		{"the whole identity, by an expression", trusting("identityRegexp: .*@acme\\.example"), signed, jane, ""},
		{"a part of the identity, by an expression", trusting("identityRegexp: acme"), signed, "", "signature 1"},
		{"another identity", trusting("identity: joe@acme.example"), signed, "", "signature 1"},
		{"another issuer", s.write(t, "issuer.yaml", "identity: "+jane+"\nissuer: https://evil.example\ntrustedRoot: root.json\n"), signed, "", "signature 1"},
		{"of another authority", byJane, other.sign(t, jane, statement(manifest, signs)), "", "signature 1"},
		{"something else", byJane, s.sign(t, jane, statement("{}", signs)), "", "signature 1"},
		{"a statement that is no signature", byJane, s.sign(t, jane, statement(manifest, "https://cosign.sigstore.dev/attestation/vuln/v1")), "", "it is a statement of the type"},
		{"the second one", byJane, other.sign(t, jane, statement(manifest, signs)) + "\n" + signed, jane, ""},
		{"a key where an identity is asked for", byJane, byTheKey, "", "signature 1"},
		{"the key", byKey, byTheKey, "cosign.pub", ""},
		{"another key", byKey, withKey(t, otherKey, statement(manifest, signs)), "", "signature 1"},
		{"another key than the one that signed", s.write(t, "other.pub", otherPublic), byTheKey, "", "signature 1"},
		{"something else, with the key", byKey, withKey(t, key, statement("{}", signs)), "", "signature 1"},
		{"a statement with the key that is no signature", byKey, withKey(t, key, statement(manifest, "x")), "", "it is a statement of the type"},
		{"a certificate where a key is asked for", byKey, signed, "", "signature 1"},
		{"another statement, with the signature of this one", byKey, strings.Replace(byTheKey, b64(statement(manifest, signs)), b64(statement("{}", signs)), 1), "", "signature 1"},
		{"none", byKey, "", "", "it has no signature"},
	} {
		var out bytes.Buffer
		err := run([]string{"--digest", "sha256:" + digestOf(manifest), "--signed-by", row.by}, strings.NewReader(row.bundles), &out)
		if row.err == "" && (err != nil || out.String() != `"`+row.want+"\"\n") || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err) || out.Len() > 0) {
			t.Errorf("%s: %q, %v", row.reason, out.String(), err)
		}
	}
}

func b64(content []byte) string {
	text, _ := json.Marshal(content)
	return strings.Trim(string(text), `"`)
}

// TestHostileBundles: what a registry sends as a signature is an error in one line.
func TestHostileBundles(t *testing.T) {
	t.Parallel()
	s := start(t)
	key, public := newKey(t)
	by := s.write(t, "cosign.pub", public)
	good := withKey(t, key, statement(manifest, signs))
	subject := `{"digest":{"sha256":"` + digestOf(manifest) + `"}},`
	many := strings.Replace(string(statement(manifest, signs)), `"subject":[`, `"subject":[`+strings.Repeat(subject, 20_000), 1)
	for reason, text := range map[string]string{
		"nothing": "null", "a list": "[]", "a number": "1e999999999", "cut": good[:len(good)/2], "deep": strings.Repeat(`{"a":`, 200_000),
		"deep lists": strings.Repeat("[", 2_000_000), "large": `"` + strings.Repeat("x", 9<<20) + `"`, "many": strings.Repeat("{} ", 1000),
		"no content": `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`, "no version": "{}", "zero": "\x00",
		"a terminal":      `{"mediaType":"\u001b[31m\u202e"}`,
		"many subjects":   withKey(t, key, []byte(many)),
		"no statement":    withKey(t, key, []byte("\x1b[31m")),
		"a million lists": withKey(t, key, []byte(strings.Repeat("[", 1_000_000))),
		"no material":     strings.Replace(good, `"publicKey"`, `"certificate"`, 1),
	} {
		err := run([]string{"--digest", "sha256:" + digestOf(manifest), "--signed-by", by}, strings.NewReader(text), &bytes.Buffer{})
		if err == nil || len(err.Error()) > 20*400 || strings.ContainsAny(err.Error(), "\x00\x1b\u202e") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestMistakes: what the user writes wrong is an error that says what is expected.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := start(t)
	digest := "sha256:" + digestOf(manifest)
	private := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	for _, row := range []struct{ reason, digest, by, want string }{
		{"no digest", "", s.write(t, "a", ""), "--digest and --signed-by are required"},
		{"no file", digest, "", "--digest and --signed-by are required"},
		{"a short digest", "sha256:00", s.write(t, "a", ""), "expected sha256:"},
		{"another algorithm", strings.Replace(digest, "256", "512", 1), s.write(t, "a", ""), "expected sha256:"},
		{"a file that is not there", digest, filepath.Join(s.folder, "none"), "none"},
		{"a private key", digest, s.write(t, "b", private), "read public key"},
		{"everybody", digest, s.write(t, "c", "issuer: x\ntrustedRoot: root.json\n"), "expected identity or identityRegexp"},
		{"two identities", digest, s.write(t, "d", "identity: a\nidentityRegexp: b\nissuer: x\ntrustedRoot: root.json\n"), "expected identity or identityRegexp"},
		{"a field that is none", digest, s.write(t, "e", "identities: a\n"), "unknown field"},
		{"no root", digest, s.write(t, "f", "identity: a\nissuer: x\ntrustedRoot: none.json\n"), "none.json"},
		{"an empty root", digest, s.write(t, "g", "identity: a\nissuer: x\ntrustedRoot: h\n"), "trustedRoot"},
		{"an expression that is none", digest, s.write(t, "i", "identityRegexp: '('\nissuer: x\ntrustedRoot: root.json\n"), "regexp"},
	} {
		s.write(t, "h", `{"mediaType":"`+root.TrustedRootMediaType01+`"}`)
		err := run([]string{"--digest", row.digest, "--signed-by", row.by}, strings.NewReader("{}"), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, expected %q", row.reason, err, row.want)
		}
	}
}
