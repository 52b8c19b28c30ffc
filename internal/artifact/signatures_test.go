package artifact_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/internal/artifact/artifacttest"
)

// TestSignatures: the bundles that refer to a digest are found, and no others.
func TestSignatures(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	ref := parse(t, "oci://"+r.Host+"/a:1")
	pushed, err := artifact.Push(t.Context(), ref, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := artifact.Push(t.Context(), ref, map[string][]byte{"pack.yaml": []byte("b: 1\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := artifact.Signatures(t.Context(), ref, pushed); err != nil || len(got) != 0 {
		t.Errorf("without any: %q %v", got, err)
	}
	r.Sign(t, pushed, []byte(`{"a":1}`))
	r.Sign(t, other, []byte(`{"b":1}`))
	got, err := artifact.Signatures(t.Context(), ref, pushed)
	if diff := cmp.Diff([][]byte{[]byte(`{"a":1}`)}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestSignaturesByTag: a registry without the API of referrers has an index of them under a tag.
func TestSignaturesByTag(t *testing.T) {
	t.Parallel()
	r := artifacttest.Start(t)
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		if strings.Contains(q.URL.Path, "/referrers/") {
			http.NotFound(w, q)
			return true
		}
		return false
	}
	of := layer("", []byte("x")).Digest.String()
	if got, err := artifact.Signatures(t.Context(), parse(t, "oci://"+r.Host+"/a:1"), of); err != nil || len(got) != 0 {
		t.Errorf("%q %v", got, err)
	}
}

// TestHostileSignatures: what a registry says refers to an artifact is an error, before more than a little is read.
func TestHostileSignatures(t *testing.T) {
	t.Parallel()
	const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	of := layer("", []byte("x")).Digest.String()
	good := []byte(`{"layers":[]}`)
	describe := func(change func(*ocispec.Descriptor)) ocispec.Descriptor {
		d := layer("", good)
		d.MediaType, d.ArtifactType, d.Annotations = ocispec.MediaTypeImageManifest, bundleType, nil
		change(&d)
		return d
	}
	same := func(*ocispec.Descriptor) {}
	many := func(n int, change func(*ocispec.Descriptor)) (all []ocispec.Descriptor) {
		for range n {
			all = append(all, describe(change))
		}
		return all
	}
	for _, tt := range []struct {
		reason, text, want string
		referrers          []ocispec.Descriptor
	}{
		{"no layer", "", "expected one layer", many(1, same)},
		{"many signatures", "", "more than 20 signatures", many(21, same)},
		{"many others", "", "more than 20 signatures", many(2000, func(d *ocispec.Descriptor) { d.ArtifactType = "other" })},
		{"a large manifest", "", "larger than", many(1, func(d *ocispec.Descriptor) { d.Size = 1 << 40 })},
		{"less than nothing", "", "larger than", many(1, func(d *ocispec.Descriptor) { d.Size = -1 })},
		{"an index", "", "its manifest is none", many(1, func(d *ocispec.Descriptor) { d.MediaType = ocispec.MediaTypeImageIndex })},
		{"a digest that is none", "", "signature 1", many(1, func(d *ocispec.Descriptor) { d.Digest = "md5:x" })},
		{"no index", "[", "read signatures", nil},
		{"a large index", strings.Repeat(" ", 8<<20), "read signatures", nil},
	} {
		r := artifacttest.Start(t)
		r.Put(layer("", good).Digest.String(), ocispec.MediaTypeImageManifest, good)
		r.Before = func(w http.ResponseWriter, q *http.Request) bool {
			if !strings.Contains(q.URL.Path, "/referrers/") {
				return false
			}
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			if tt.text != "" {
				_, _ = fmt.Fprint(w, tt.text)
				return true
			}
			_ = json.NewEncoder(w).Encode(ocispec.Index{Manifests: tt.referrers})
			return true
		}
		got, err := artifact.Signatures(t.Context(), parse(t, "oci://"+r.Host+"/a:1"), of)
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: %q %v, expected %q", tt.reason, got, err, tt.want)
		}
	}
	r, pages := artifacttest.Start(t), 0
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		pages++
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		w.Header().Set("Link", fmt.Sprintf(`<%s?n=%d>; rel="next"`, q.URL.Path, pages))
		_ = json.NewEncoder(w).Encode(ocispec.Index{Manifests: []ocispec.Descriptor{}})
		return true
	}
	if _, err := artifact.Signatures(t.Context(), parse(t, "oci://"+r.Host+"/a:1"), of); err == nil || pages > 200 {
		t.Errorf("pages without end: %d are read: %v", pages, err)
	}
}
