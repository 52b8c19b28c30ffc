package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes an OCI layout with the image of each platform of Linux that has a binary of usher, and returns the digest of
// their index. It is the image of the Dockerfile.
func (r *release) image(dir string, created time.Time) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range r.of("Binary") {
		if binary.OS != "linux" || binary.Name != "usher" {
			continue
		}
		platform, err := r.platform(binary, created)
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        platform,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: binary.OS, Architecture: binary.Arch}},
		})
	}
	index, ok := mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	if !ok {
		return "", fmt.Errorf("annotations make no index")
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	if len(manifest.Manifests) == 0 {
		return "", fmt.Errorf("there is no binary for Linux")
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return digest.Hex, write(dir, func(to layout.Path) error {
		return to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.Version}))
	})
}

func (r *release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.source":   "https://github.com/usher-dev/usher",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  r.Version,
		"org.opencontainers.image.revision": r.Commit,
	}
}

func (r *release) platform(binary artifact, created time.Time) (v1.Image, error) {
	content, err := os.ReadFile(filepath.Join(r.root, binary.Path))
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "usher", Mode: 0o755, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "COPY usher /usher"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = binary.OS, binary.Arch, v1.Time{Time: created}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usher"},
		ExposedPorts: map[string]struct{}{"8443": {}, "8080": {}},
		Labels: map[string]string{
			"org.opencontainers.image.source":   "https://github.com/usher-dev/usher",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// write makes a new layout, in place of one that is there.
func write(dir string, add func(layout.Path) error) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return add(to)
}
