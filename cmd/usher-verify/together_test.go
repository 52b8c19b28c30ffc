//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

const (
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	ociIndex   = "application/vnd.oci.image.index.v1+json"
	ociImage   = "application/vnd.oci.image.manifest.v1+json"
)

// build builds usher and usher-verify in a folder, and returns the path of usher.
func build(t *testing.T, dir string) string {
	t.Helper()
	for _, args := range [][]string{{"-C", "../..", "build", "-o", dir, "./cmd/usher"}, {"build", "-o", dir, "."}} {
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, "usher")
}

// A store is a registry.
type store struct {
	t   *testing.T
	url string
}

// openStore starts a registry without the API of referrers, as many are: what refers to a manifest is in an index with
// a tag.
func openStore(t *testing.T) *store {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return &store{t, server.URL}
}

// send sends content, and returns its digest.
func (s *store) send(method, path, mediaType string, content []byte) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		s.t.Fatalf("%s %s: %s", method, path, response.Status)
	}
	return "sha256:" + digestOf(string(content))
}

func (s *store) json(value any) []byte {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// sign keeps bundles that refer to what has a digest in a repository, as cosign does.
func (s *store) sign(repository, of string, bundles ...string) {
	s.t.Helper()
	type object = map[string]any
	blob := func(content []byte, mediaType string) object {
		digest := s.send(http.MethodPost, repository+"/blobs/uploads/?digest=sha256:"+digestOf(string(content)), "application/octet-stream", content)
		return object{"mediaType": mediaType, "digest": digest, "size": len(content)}
	}
	manifests := []object{}
	for _, bundle := range bundles {
		text := s.json(object{
			"schemaVersion": 2, "mediaType": ociImage, "artifactType": bundleType,
			"config":  blob([]byte("{}"), "application/vnd.oci.empty.v1+json"),
			"layers":  []object{blob([]byte(bundle), bundleType)},
			"subject": object{"mediaType": ociImage, "digest": of, "size": 1},
		})
		digest := "sha256:" + digestOf(string(text))
		s.send(http.MethodPut, repository+"/manifests/"+digest, ociImage, text)
		manifests = append(manifests, object{"mediaType": ociImage, "artifactType": bundleType, "digest": digest, "size": len(text)})
	}
	index := s.json(object{"schemaVersion": 2, "mediaType": ociIndex, "manifests": manifests})
	s.send(http.MethodPut, repository+"/manifests/"+strings.Replace(of, ":", "-", 1), ociIndex, index)
}

// acme is a pack.
func acme(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pack.yaml": `{apiVersion: usher.dev/v1alpha1, kind: PolicyPack, metadata: {name: acme}, title: Acme, description: For us., version: "1.2.0", kubernetes: ">=1.30", policies: [owner]}`,
		"owner.yaml": `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: acme-owner}
spec:
  description: Namespaces have an owner.
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}]}
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: set the label owner}]
  bindings: [{name: all, validationActions: [Warn]}]
`,
		"cases/owner.yaml": "cases: []\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runProgram runs a program with a $PATH, and returns what it prints, its status, and its memory in KiB.
func runProgram(t *testing.T, path, program string, args ...string) (stdout, stderr string, status int, memory int64) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = []string{"PATH=" + path, "HOME=" + t.TempDir()}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	if usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode(), memory
}

// TestWithUsher runs usher with usher-verify: packs in a registry are installed if who is asked for has signed them.
func TestWithUsher(t *testing.T) {
	t.Parallel()
	bin, none := t.TempDir(), t.TempDir()
	usher := build(t, bin)
	s := openStore(t)
	host := "oci://" + strings.TrimPrefix(s.url, "http://")
	pack := acme(t)
	push := func(repository string) (reference, digest string) {
		t.Helper()
		stdout, stderr, _, _ := runProgram(t, none, usher, "library", "push", pack, host+"/"+repository+":1.2.0")
		reference = strings.TrimSpace(stdout)
		_, digest, ok := strings.Cut(reference, "@sha256:")
		if !ok {
			t.Fatalf("push: %s%s", stdout, stderr)
		}
		return reference, "sha256:" + digest
	}
	of := func(digest string) []byte {
		return bytes.ReplaceAll(statement("", signs), []byte(digestOf("")), []byte(strings.TrimPrefix(digest, "sha256:")))
	}
	sigstore, other := start(t), start(t)
	key, public := newKey(t)
	byJane := sigstore.write(t, "jane.yaml", "identity: "+jane+"\nissuer: "+issuer+"\ntrustedRoot: root.json\n")
	byJoe := sigstore.write(t, "joe.yaml", "identity: joe@acme.example\nissuer: "+issuer+"\ntrustedRoot: root.json\n")
	byKey := sigstore.write(t, "cosign.pub", public)

	signed, digest := push("signed")
	s.sign("/v2/signed", digest, other.sign(t, jane, of(digest)), sigstore.sign(t, jane, of(digest)), withKey(t, key, of(digest)))
	forged, _ := push("forged")
	s.sign("/v2/forged", digest, other.sign(t, jane, of(digest)), sigstore.sign(t, jane, statement("another", signs)), "\x1b[31m{", withKey(t, key, statement("another", signs)))
	unsigned, _ := push("unsigned")

	// As krew does: the program in the $PATH is a link to the one that has the other one beside it.
	linked := filepath.Join(t.TempDir(), "kubectl-usher")
	if err := os.Symlink(usher, linked); err != nil {
		t.Fatal(err)
	}
	// Alone, as users of an image or of go install have it.
	alone := filepath.Join(t.TempDir(), "usher")
	if err := os.Link(usher, alone); err != nil {
		t.Fatal(err)
	}
	hostile := func(script string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "usher-verify"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, row := range []struct{ reason, program, path, pack, by, want string }{
		{"by an identity", usher, none, signed, byJane, ""},
		{"by a key", usher, none, signed, byKey, ""},
		{"as a plugin of kubectl", linked, none, signed, byJane, ""},
		{"usher-verify in the path", alone, bin, signed, byJane, ""},
		{"by somebody else", usher, none, signed, byJoe, "is not signed by " + byJoe},
		{"of another digest, another authority, another key", usher, none, forged, byJane, "is not signed by " + byJane},
		{"of another digest, with the key", usher, none, forged, byKey, "is not signed by " + byKey},
		{"by nobody", usher, none, unsigned, byJane, "it has no signature"},
		{"a file that is not there", usher, none, signed, filepath.Join(none, "x"), "no such file"},
		{"no usher-verify", alone, none, signed, byJane, "install it beside usher"},
		{"a program that is none", alone, hostile("\x00\x01 \x1b[31m"), signed, byJane, "is not signed by"},
		{"a gigabyte of reasons", alone, hostile("/usr/bin/head -c 1000000000 /dev/zero | /usr/bin/tr '\\0' x >&2\nexit 1\n"), signed, byJane, "is not signed by"},
	} {
		stdout, stderr, status, memory := runProgram(t, row.path, row.program, "library", "install", "acme", "--packs", row.pack, "--signed-by", row.by)
		installed := strings.Contains(stdout, "name: acme-owner")
		if ok := row.want == ""; installed != ok || (status == 0) != ok || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: status %d, installed: %t\n%s", row.reason, status, installed, stderr)
		}
		if strings.ContainsAny(stderr, "\x1b\x00") || len(stderr) > 20_000 {
			t.Errorf("%s: it prints %d bytes: %.500q", row.reason, len(stderr), stderr)
		}
		if memory > 300<<10 {
			t.Errorf("%s: it takes %d MiB", row.reason, memory>>10)
		}
	}
}
