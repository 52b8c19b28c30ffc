package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestHelmPullsTheChart: Helm gets the chart of this repository from a registry to which its layout was copied.
func TestHelmPullsTheChart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helm := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=tools/go.mod", "helm"}, args...)...)
		command.Dir = "../.."
		command.Env = os.Environ()
		for _, home := range []string{"CACHE", "CONFIG", "DATA"} {
			command.Env = append(command.Env, "HELM_"+home+"_HOME="+filepath.Join(dir, home))
		}
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	helm("package", "deploy/helm/usher", "--destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "usher-*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("packed %v: %v", packed, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(packed[0]), "usher-"), ".tgz")
	digest, err := pack(packed[0], filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(v1.Hash{Algorithm: "sha256", Hex: digest})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/charts/usher"
	reference, err := name.ParseReference(repository + ":" + version)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	pulled := t.TempDir()
	helm("pull", "oci://"+repository, "--version", version, "--plain-http", "--destination", pulled)
	got, err := os.ReadFile(filepath.Join(pulled, filepath.Base(packed[0])))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(packed[0]); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Helm gets another chart: %v", err)
	}
}
