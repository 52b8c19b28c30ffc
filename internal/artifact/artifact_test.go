package artifact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/internal/artifact/artifacttest"
)

var files = map[string][]byte{"pack.yaml": []byte("a: 1\n"), "labels.yaml": []byte("b: 2\n"), "cases/labels.yaml": []byte("c: 3\n")}

func parse(t *testing.T, text string) artifact.Reference {
	t.Helper()
	ref, err := artifact.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func pull(t *testing.T, reference string) (map[string][]byte, string, error) {
	t.Helper()
	return artifact.Pull(t.Context(), parse(t, reference))
}

// What is pushed is what is pulled, by tag and by digest, and the same files have the same digest.
func TestPushAndPull(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	tagged := "oci://" + r.Host + "/policies/acme:1.0.0"
	var pushed string
	for range 2 {
		digest, err := artifact.Push(t.Context(), parse(t, tagged), files, map[string]string{"org.opencontainers.image.version": "1.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		if pushed != "" && pushed != digest {
			t.Errorf("%s, then %s", pushed, digest)
		}
		pushed = digest
	}
	for _, reference := range []string{tagged, tagged + "@" + pushed, parse(t, tagged).At(pushed)} {
		got, digest, err := pull(t, reference)
		if diff := cmp.Diff(files, got); diff != "" || digest != pushed || err != nil {
			t.Errorf("%s: %s, %v (-want +got):\n%s", reference, digest, err, diff)
		}
	}
	if _, err := artifact.Push(t.Context(), parse(t, "oci://"+r.Host+"/a@"+pushed), files, nil); err == nil {
		t.Error("something is pushed to a digest")
	}
	if _, _, err := pull(t, "oci://"+r.Host+"/policies/acme:2.0.0"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"registry.example/a:1":                                  "expected oci://",
		"oci://registry.example/a":                              "expected a tag or a digest",
		"oci://registry.example/a@sha256:1":                     "invalid",
		"oci://registry.example/../a:1":                         "invalid",
		"oci://registry.example/a:" + strings.Repeat("x", 1000): "invalid",
		"oci://\x1b[31m/a:1":                                    "invalid",
		"oci://":                                                "invalid",
	} {
		if _, err := artifact.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, expected %q", text, err, want)
		}
	}
	pinned := parse(t, "oci://registry.example/a:1@sha256:"+strings.Repeat("0", 64))
	if !pinned.Pinned() || parse(t, "oci://registry.example/a:1").Pinned() {
		t.Error("what is pinned is not told from what is not")
	}
}

const fileType = "application/vnd.usher.policypack.file.v1+yaml"

// layer returns a file of an artifact.
func layer(name string, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: fileType, Digest: digest.FromBytes(content), Size: int64(len(content)), Annotations: map[string]string{ocispec.AnnotationTitle: name}}
}

// TestHostileArtifacts: what a registry sends is an error that says why, before more than a little is read.
func TestHostileArtifacts(t *testing.T) {
	t.Parallel()
	good := []byte("a: 1\n")
	huge := layer("pack.yaml", good)
	huge.Size = 1 << 40
	negative := layer("pack.yaml", good)
	negative.Size = -1
	longer, shorter := layer("pack.yaml", good), layer("pack.yaml", good)
	longer.Size, shorter.Size = 100, 2
	wrong := layer("pack.yaml", []byte("b: 2\n"))
	wrong.Size = int64(len(good))
	odd := layer("pack.yaml", good)
	odd.Digest = "md5:900150983cd24fb0d6963f7d28e17f72"
	packed := layer("pack.yaml", good)
	packed.MediaType = ocispec.MediaTypeImageLayerGzip
	var many, most []ocispec.Descriptor
	for i := range 100_000 {
		many = append(many, layer(fmt.Sprintf("p%d.yaml", i), good))
	}
	for i := range 17 {
		l := layer(fmt.Sprintf("p%d.yaml", i), good)
		l.Size = 1 << 20
		most = append(most, l)
	}
	tests := []struct {
		reason string
		layers []ocispec.Descriptor
		kind   string
		want   string
	}{
		{"out of the folder", []ocispec.Descriptor{layer("../pack.yaml", good)}, "", "a file called"},
		{"deep out of the folder", []ocispec.Descriptor{layer("cases/../../pack.yaml", good)}, "", "a file called"},
		{"absolute", []ocispec.Descriptor{layer("/etc/pack.yaml", good)}, "", "a file called"},
		{"of another system", []ocispec.Descriptor{layer(`..\pack.yaml`, good)}, "", "a file called"},
		{"a program", []ocispec.Descriptor{layer("run.sh", good)}, "", "a file called"},
		{"hidden", []ocispec.Descriptor{layer(".bashrc.yaml", good)}, "", "a file called"},
		{"a long name", []ocispec.Descriptor{layer(strings.Repeat("a", 10_000)+".yaml", good)}, "", "a file called"},
		{"no name", []ocispec.Descriptor{layer("", good)}, "", "a file called"},
		{"twice", []ocispec.Descriptor{layer("pack.yaml", good), layer("pack.yaml", good)}, "", "two files called"},
		{"a terabyte", []ocispec.Descriptor{huge}, "", "at most"},
		{"less than nothing", []ocispec.Descriptor{negative}, "", "at most"},
		{"many files", many, "", ""},
		{"many bytes", most, "", "bytes in all"},
		{"more than there is", []ocispec.Descriptor{longer}, "", "file pack.yaml: "},
		{"less than there is", []ocispec.Descriptor{shorter}, "", "file pack.yaml: "},
		{"another file", []ocispec.Descriptor{wrong}, "", "file pack.yaml: "},
		{"a digest that is none", []ocispec.Descriptor{odd}, "", "file pack.yaml: "},
		{"something packed", []ocispec.Descriptor{packed}, "", "a layer of the type"},
		{"an image", []ocispec.Descriptor{layer("pack.yaml", good)}, "application/vnd.oci.image.config.v1+json", "it is no pack"},
	}
	for _, tt := range tests {
		r := artifacttest.Start(t)
		for _, content := range []string{"a: 1\n"} {
			for i := range tt.layers[:min(len(tt.layers), 20)] {
				r.Put(tt.layers[i].Digest.String(), "", []byte(content))
				r.Replace(tt.layers[i].Digest.String(), []byte(content))
			}
		}
		manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifact.Type, Config: ocispec.DescriptorEmptyJSON, Layers: tt.layers}
		manifest.SchemaVersion = 2
		if tt.kind != "" {
			manifest.ArtifactType = tt.kind
		}
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		r.Put("1", ocispec.MediaTypeImageManifest, text)
		if _, _, err = pull(t, "oci://"+r.Host+"/a:1"); err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v, expected %q", tt.reason, err, tt.want)
		}
	}
}

// TestHostileManifests: manifests that are none, and one that is not what was asked for.
func TestHostileManifests(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	for i, text := range []string{
		"", "null", "[]", "{", "\x00", strings.Repeat(`{"a":`, 100_000), `{"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`,
		`{"mediaType":"` + ocispec.MediaTypeImageManifest + `","artifactType":"` + artifact.Type + `","layers":{}}`, strings.Repeat(" ", 2<<20),
	} {
		r.Put("1", ocispec.MediaTypeImageManifest, []byte(text))
		if _, _, err := pull(t, "oci://"+r.Host+"/a:1"); err == nil {
			t.Errorf("manifest %d is none, and is read", i)
		}
	}
	pushed, err := artifact.Push(t.Context(), parse(t, "oci://"+r.Host+"/a:2"), files, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := artifact.Push(t.Context(), parse(t, "oci://"+r.Host+"/a:3"), map[string][]byte{"pack.yaml": []byte("evil: true\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, pushed) {
			return false
		}
		q.URL.Path = strings.Replace(q.URL.Path, pushed, other, 1)
		r.Before = nil
		r.ServeHTTP(lying{w, pushed}, q)
		return true
	}
	if got, _, err := pull(t, "oci://"+r.Host+"/a@"+pushed); err == nil {
		t.Errorf("another artifact was sent, and is %s", got)
	}
}

// A lying response has the digest that was asked for, whatever it has.
type lying struct {
	http.ResponseWriter
	digest string
}

// Write implements [http.ResponseWriter].
func (l lying) Write(p []byte) (int, error) {
	l.Header().Set("Docker-Content-Digest", l.digest)
	return l.ResponseWriter.Write(p)
}

// TestRedirects: a registry may send requests on, but not forever, and not from this machine to others without
// TLS; nor may it have tokens asked for there.
func TestRedirects(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	pushed, err := artifact.Push(t.Context(), parse(t, "oci://"+r.Host+"/a:1"), files, nil)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := artifacttest.Start(t)
	for name, content := range files {
		elsewhere.Put(name, "", content)
	}
	var asked atomic.Int32
	for _, tt := range []struct{ reason, to, want string }{
		{"blobs are elsewhere", "http://" + elsewhere.Host, ""},
		{"forever", "http://" + r.Host, "redirects"},
		{"out of this machine", "http://192.0.2.1", "expected HTTPS"},
	} {
		r.Before = func(w http.ResponseWriter, q *http.Request) bool {
			if !strings.Contains(q.URL.Path, "/blobs/") {
				return false
			}
			asked.Add(1)
			http.Redirect(w, q, tt.to+q.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		_, _, err := pull(t, "oci://"+r.Host+"/a@"+pushed)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://192.0.2.1/token",service="a"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	if _, _, err := pull(t, "oci://"+r.Host+"/a@"+pushed); err == nil || !strings.Contains(err.Error(), "expected HTTPS") {
		t.Error(err)
	}
	if n := asked.Load(); n > 40 {
		t.Errorf("%d requests", n)
	}
}

// TestCredentials: those of Docker's configuration are sent to their registry, and to no other.
func TestCredentials(t *testing.T) {
	home := t.TempDir()
	t.Setenv("DOCKER_CONFIG", home)
	r, other := artifacttest.Start(t), artifacttest.Start(t)
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"auths":{"`+r.Host+`":{"auth":"amFuZTpzZWNyZXQ="}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []*artifacttest.Registry{r, other} {
		at.Before = func(w http.ResponseWriter, q *http.Request) bool {
			user, password, ok := q.BasicAuth()
			if ok && at == other {
				t.Error("credentials of one registry are sent to another")
			}
			if user == "jane" && password == "secret" {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	if _, err := artifact.Push(t.Context(), parse(t, "oci://"+r.Host+"/a:1"), files, nil); err != nil {
		t.Error(err)
	}
	if _, err := artifact.Push(t.Context(), parse(t, "oci://"+other.Host+"/a:1"), files, nil); err == nil {
		t.Error("pushed without credentials")
	}
}

// TestEnds: a registry that does not answer is left when the caller ends.
func TestEnds(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Before = func(_ http.ResponseWriter, q *http.Request) bool {
		cancel()
		<-q.Context().Done()
		return true
	}
	if _, _, err := artifact.Pull(ctx, parse(t, "oci://"+r.Host+"/a:1")); err == nil {
		t.Error("there is an answer")
	}
}
