package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// built is a repository in which goreleaser has built a release.
func built(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	var chart bytes.Buffer
	zipped := gzip.NewWriter(&chart)
	archive := tar.NewWriter(zipped)
	const description = "name: usher\nversion: 1.2.3\n"
	for _, err := range []error{
		archive.WriteHeader(&tar.Header{Name: "usher/Chart.yaml", Size: int64(len(description)), Mode: 0o644}),
		func() error { _, err := io.WriteString(archive, description); return err }(), archive.Close(), zipped.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"dist/metadata.json": `{"tag": "v1.2.3", "version": "1.2.3", "commit": "` + commit + `"}`,
		"dist/artifacts.json": `[
			{"name": "usher", "path": "dist/amd64/usher", "goos": "linux", "goarch": "amd64", "type": "Binary"},
			{"name": "usher-verify", "path": "dist/amd64/usher-verify", "goos": "linux", "goarch": "amd64", "type": "Binary"},
			{"name": "usher", "path": "dist/arm64/usher", "goos": "linux", "goarch": "arm64", "type": "Binary"},
			{"name": "usher.exe", "path": "dist/windows/usher.exe", "goos": "windows", "goarch": "amd64", "type": "Binary"},
			{"name": "usher_linux_amd64.tar.gz", "path": "dist/usher_linux_amd64.tar.gz", "goos": "linux", "goarch": "amd64", "type": "Archive"},
			{"name": "usher_windows_amd64.zip", "path": "dist/usher_windows_amd64.zip", "goos": "windows", "goarch": "amd64", "type": "Archive"},
			{"name": "checksums.txt", "path": "dist/checksums.txt", "type": "Checksum"}]`,
		"dist/amd64/usher": "binary for amd64", "dist/amd64/usher-verify": "another program", "dist/arm64/usher": "binary for arm64", "dist/windows/usher.exe": "for Windows",
		"dist/usher_linux_amd64.tar.gz": "archive", "dist/usher_windows_amd64.zip": "another archive",
		"dist/usher-1.2.3.tgz": chart.String(),
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// supply runs the program, and returns what it prints: a digest and a name a line.
func supply(t *testing.T, root string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	if err := run([]string{"-root", root, "-chart", "dist/usher-1.2.3.tgz", "-created", "2026-01-02T03:04:05+01:00"}, &out); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for line := range strings.Lines(out.String()) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		digests[name] = digest
	}
	return digests
}

// TestImage: the layout has the image of the Dockerfile for each platform of Linux, with the binary and nothing else.
func TestImage(t *testing.T) {
	t.Parallel()
	root := built(t)
	digests := supply(t, root)
	outer, err := layout.ImageIndexFromPath(filepath.Join(root, "dist/image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	index := index(t, outer, digests["ghcr.io/usher-dev/usher"])
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Annotations["org.opencontainers.image.revision"] != commit {
		t.Errorf("annotations %v", manifest.Annotations)
	}
	var platforms []string
	for _, described := range manifest.Manifests {
		image, err := index.Image(described.Digest)
		if err != nil {
			t.Fatal(err)
		}
		platforms = append(platforms, described.Platform.String())
		checkImage(t, image, described.Platform)
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("images for %s", got)
	}
}

// index returns the index that a layout has.
func index(t *testing.T, outer v1.ImageIndex, digest string) v1.ImageIndex {
	t.Helper()
	index, err := outer.ImageIndex(v1.Hash{Algorithm: "sha256", Hex: digest})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != platform.Architecture || config.OS != platform.OS {
		t.Errorf("an image for %s says %s/%s", platform, config.OS, config.Architecture)
	}
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) string { return string(regexp.MustCompile(pattern).FindSubmatch(text)[1]) }
	if want := find(`(?m)^USER (.+)$`); config.Config.User != want {
		t.Errorf("the user is %q, and in the Dockerfile %q", config.Config.User, want)
	}
	if got, _ := json.Marshal(config.Config.Entrypoint); string(got) != find(`(?m)^ENTRYPOINT (.+)$`) {
		t.Errorf("the entry point is %s", got)
	}
	for port := range strings.FieldsSeq(find(`(?m)^EXPOSE (.+)$`)) {
		if _, ok := config.Config.ExposedPorts[port]; !ok {
			t.Errorf("port %s is missing", port)
		}
	}
	labels := regexp.MustCompile(`(\S+)=(\S+)`).FindAllStringSubmatch(find(`(?s)LABEL (.+?)\nCOPY`), -1)
	for _, label := range labels {
		if config.Config.Labels[label[1]] != label[2] {
			t.Errorf("label %s is missing", label[0])
		}
	}
	files := tar.NewReader(mutate.Extract(image))
	header, err := files.Next()
	if err != nil || header.Name != "usher" || header.Mode != 0o755 {
		t.Fatalf("%+v %v", header, err)
	}
	if content, _ := io.ReadAll(files); string(content) != "binary for "+platform.Architecture {
		t.Errorf("the binary is %q", content)
	}
	if header, err = files.Next(); err != io.EOF {
		t.Errorf("there is more: %+v %v", header, err)
	}
}

// TestChart: the layout has the archive as it is, and a config that is the description of the chart.
func TestChart(t *testing.T) {
	t.Parallel()
	root := built(t)
	digest := supply(t, root)["ghcr.io/usher-dev/charts/usher"]
	path, err := layout.FromPath(filepath.Join(root, "dist/chart"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := path.Bytes(v1.Hash{Algorithm: "sha256", Hex: digest})
	if err != nil {
		t.Fatal(err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent || manifest.Config.MediaType != chartConfig {
		t.Fatalf("manifest %s", raw)
	}
	content, err := path.Bytes(manifest.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if packed, err := os.ReadFile(filepath.Join(root, "dist/usher-1.2.3.tgz")); err != nil || !bytes.Equal(packed, content) {
		t.Errorf("the layer is not the chart: %v", err)
	}
	config, err := path.Bytes(manifest.Config.Digest)
	if err != nil || string(config) != `{"name":"usher","version":"1.2.3"}` {
		t.Errorf("config %s %v", config, err)
	}
}

// TestSame: the same commit gives the same digests, also where dist has something from before.
func TestSame(t *testing.T) {
	t.Parallel()
	root := built(t)
	first := supply(t, root)
	for name, digest := range supply(t, root) {
		if first[name] != digest {
			t.Errorf("%s has another digest", name)
		}
	}
	for name, digest := range supply(t, built(t)) {
		if first[name] != digest && !strings.HasSuffix(name, "charts/usher") {
			t.Errorf("%s has another digest in another folder", name)
		}
	}
	if len(first) != 4 {
		t.Errorf("%v", first)
	}
}

// TestKrew: the manifest has what krew requires, and the digests of the archives.
func TestKrew(t *testing.T) {
	t.Parallel()
	root := built(t)
	digests := supply(t, root)
	text, err := os.ReadFile(filepath.Join(root, "dist/krew/usher.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &plugin); err != nil {
		t.Fatal(err)
	}
	// https://krew.sigs.k8s.io/docs/developer-guide/develop/naming-guide/ and its validation.
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata.Name != "usher" ||
		plugin.Spec.Version != "v1.2.3" || plugin.Spec.ShortDescription == "" || len(plugin.Spec.ShortDescription) > 50 || len(plugin.Spec.Platforms) != 2 {
		t.Errorf("manifest:\n%s", text)
	}
	for _, platform := range plugin.Spec.Platforms {
		name := filepath.Base(platform.URI)
		if digests[name] == "" || platform.SHA256 != digests[name] || !strings.Contains(platform.URI, "/v1.2.3/") {
			t.Errorf("%s has the digest %s", platform.URI, platform.SHA256)
		}
		ending := map[string]string{"windows": ".exe"}[platform.Selector.MatchLabels["os"]]
		if platform.Bin != "usher"+ending || platform.Files[0].From != platform.Bin || platform.Files[1].From != "usher-verify"+ending {
			t.Errorf("%s: the binary is %s, of %v", name, platform.Bin, platform.Files)
		}
	}
}

// TestProvenance: the statement names everything, and the commit.
func TestProvenance(t *testing.T) {
	t.Parallel()
	root := built(t)
	digests := supply(t, root)
	text, err := os.ReadFile(filepath.Join(root, "dist/provenance.intoto.json"))
	if err != nil {
		t.Fatal(err)
	}
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" || !strings.Contains(string(text), `"gitCommit": "`+commit) {
		t.Errorf("statement:\n%s", text)
	}
	for _, s := range statement.Subject {
		if digests[s.Name] != s.Digest["sha256"] {
			t.Errorf("%s has the digest %v", s.Name, s.Digest)
		}
		delete(digests, s.Name)
	}
	if len(digests) != 0 {
		t.Errorf("no statement about %v", digests)
	}
}

// TestMistakes: what is not a release is an error, before anything is written.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, file, text, want string }{
		{"no build", "dist/artifacts.json", "[]", "neither archives nor binaries"},
		{"a file elsewhere", "dist/artifacts.json", `[{"path": "../../etc/passwd", "type": "Binary"}]`, "outside"},
		{"a file that is not there", "dist/artifacts.json", `[{"path": "dist/none", "type": "Binary"}]`, "none"},
		{"something else", "dist/metadata.json", "{", "metadata.json"},
		{"no chart", "dist/usher-1.2.3.tgz", "text", "chart"},
	} {
		root := built(t)
		if err := os.WriteFile(filepath.Join(root, row.file), []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := run([]string{"-root", root, "-chart", "dist/usher-1.2.3.tgz", "-created", "2026-01-02T03:04:05Z"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.reason, err)
		}
	}
	if err := run([]string{"-root", built(t), "-created", "yesterday"}, io.Discard); err == nil {
		t.Error("a time that is none is taken")
	}
}
