package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// The media types of charts in registries: https://helm.sh/docs/topics/registries/.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// pack writes an OCI layout with a packed chart, as helm push would, and returns the digest of its manifest.
func pack(file, dir string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	description, err := chartFile(content)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	config, err := yaml.YAMLToJSON(description)
	if err != nil {
		return "", err
	}
	var chart struct{ Name, Version string }
	if err := json.Unmarshal(config, &chart); err != nil {
		return "", err
	}
	blobs := map[v1.Hash][]byte{}
	add := func(blob []byte, media types.MediaType) (v1.Descriptor, error) {
		hash, size, err := v1.SHA256(bytes.NewReader(blob))
		blobs[hash] = blob
		return v1.Descriptor{MediaType: media, Digest: hash, Size: size}, err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: map[string]string{
		"org.opencontainers.image.title": chart.Name, "org.opencontainers.image.version": chart.Version,
	}}
	if manifest.Config, err = add(config, chartConfig); err != nil {
		return "", err
	}
	layer, err := add(content, chartContent)
	if err != nil {
		return "", err
	}
	manifest.Layers = []v1.Descriptor{layer}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	described, err := add(raw, types.OCIManifestSchema1)
	if err != nil {
		return "", err
	}
	described.Annotations = map[string]string{"org.opencontainers.image.ref.name": chart.Version}
	return described.Digest.Hex, write(dir, func(to layout.Path) error {
		for hash, blob := range blobs {
			if err := to.WriteBlob(hash, io.NopCloser(bytes.NewReader(blob))); err != nil {
				return err
			}
		}
		return to.AppendDescriptor(described)
	})
}

// chartFile returns the Chart.yaml of a packed chart.
func chartFile(content []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("find Chart.yaml: %w", err)
		}
		if strings.Count(header.Name, "/") == 1 && strings.HasSuffix(header.Name, "/Chart.yaml") {
			return io.ReadAll(io.LimitReader(archive, 1<<20))
		}
	}
}
