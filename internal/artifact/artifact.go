// Package artifact keeps packs of policies in OCI registries. A pack is an artifact with one layer a file, as it
// is: nothing is packed or compressed, so nothing can be unpacked to more, or to somewhere else.
//
// What a registry sends counts only if it has the digest that was asked for; names and sizes are checked
// before anything is fetched.
package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

const (
	// Scheme begins the references to artifacts.
	Scheme = "oci://"
	// Type is the type of artifacts that are packs, and fileType that of their layers.
	Type     = "application/vnd.usher.policypack.v1"
	fileType = "application/vnd.usher.policypack.file.v1+yaml"

	// What an artifact may have: files, bytes in a file, in all of them, and in its manifest.
	maxFiles    = 1000
	maxFile     = 1 << 20
	maxAll      = 16 << 20
	maxManifest = 1 << 20
	// maxTime is how long a registry may take for all of it.
	maxTime = 2 * time.Minute
)

// fileName is what a file of a pack may be called.
var fileName = regexp.MustCompile(`^(cases/)?[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?\.yaml$`)

// A Reference names an artifact in a registry, by tag or by digest.
type Reference struct{ registry.Reference }

// Parse reads oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:DIGEST, or both, of which the digest counts.
func Parse(text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Reference{}, fmt.Errorf("%q: expected %sHOST/NAME:TAG or %sHOST/NAME@sha256:DIGEST", text, Scheme, Scheme)
	}
	ref, err := registry.ParseReference(rest)
	if err != nil {
		return Reference{}, fmt.Errorf("%q: %w", text, err)
	}
	if ref.Reference == "" {
		return Reference{}, fmt.Errorf("%q: expected a tag or a digest, as in %s%s:1.0.0", text, Scheme, rest)
	}
	return Reference{ref}, nil
}

// Pinned reports whether the reference has a digest, so that it always means the same content.
func (r Reference) Pinned() bool { return r.ValidateReferenceAsDigest() == nil }

// At returns the reference to what has a digest.
func (r Reference) At(digest string) string {
	return Scheme + r.Registry + "/" + r.Repository + "@" + digest
}

// Push sends files to a registry, with what others show about them, gives them the tag of the reference, and
// returns their digest. The same files always have the same digest.
func Push(ctx context.Context, ref Reference, files map[string][]byte, about map[string]string) (string, error) {
	if ref.Pinned() {
		return "", fmt.Errorf("%s: expected a tag: the digest follows from the content", ref)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	repository, err := open(ref)
	if err != nil {
		return "", err
	}
	var layers []ocispec.Descriptor
	for _, name := range slices.Sorted(maps.Keys(files)) {
		layer := content.NewDescriptorFromBytes(fileType, files[name])
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
		layers = append(layers, layer)
	}
	if err := check(layers); err != nil {
		return "", err
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if exists, err := repository.Exists(ctx, layers[i]); err == nil && exists {
			continue
		}
		if err := repository.Push(ctx, layers[i], strings.NewReader(string(files[name]))); err != nil {
			return "", fmt.Errorf("push %s to %s: %w", name, ref, err)
		}
	}
	annotations := map[string]string{ocispec.AnnotationCreated: time.Unix(0, 0).UTC().Format(time.RFC3339)}
	maps.Copy(annotations, about)
	manifest, err := oras.PackManifest(ctx, repository, oras.PackManifestVersion1_1, Type, oras.PackManifestOptions{Layers: layers, ManifestAnnotations: annotations})
	if err == nil {
		err = repository.Tag(ctx, manifest, ref.Reference.Reference)
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return manifest.Digest.String(), nil
}

// Pull returns the files of an artifact, and its digest.
func Pull(ctx context.Context, ref Reference) (map[string][]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	files, of, err := pull(ctx, ref)
	if err != nil {
		return nil, "", fmt.Errorf("pull %s: %w", ref, err)
	}
	return files, of, nil
}

func pull(ctx context.Context, ref Reference) (map[string][]byte, string, error) {
	repository, err := open(ref)
	if err != nil {
		return nil, "", err
	}
	described, body, err := repository.FetchReference(ctx, ref.Reference.Reference)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = body.Close() }()
	if described.Size > maxManifest {
		return nil, "", fmt.Errorf("its manifest is larger than %d bytes", maxManifest)
	}
	text, err := content.ReadAll(body, described)
	if err != nil {
		return nil, "", fmt.Errorf("read manifest: %w", err)
	}
	of := digest.FromBytes(text)
	if want, err := ref.Digest(); err == nil {
		// The digest that was asked for may be of another algorithm.
		if of = want.Algorithm().FromBytes(text); of != want {
			return nil, "", fmt.Errorf("the registry sent what has the digest %s", of)
		}
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, "", fmt.Errorf("read manifest: %w", err)
	}
	if manifest.MediaType != ocispec.MediaTypeImageManifest || manifest.ArtifactType != Type {
		return nil, "", errors.New("it is no pack of policies: expected an artifact of the type " + Type)
	}
	if err := check(manifest.Layers); err != nil {
		return nil, "", err
	}
	files := map[string][]byte{}
	for _, layer := range manifest.Layers {
		name := layer.Annotations[ocispec.AnnotationTitle]
		if files[name], err = content.FetchAll(ctx, repository, layer); err != nil {
			return nil, "", fmt.Errorf("file %s: %w", name, err)
		}
	}
	return files, of.String(), nil
}

// check returns what is wrong with the files of an artifact, before they are fetched.
func check(layers []ocispec.Descriptor) error {
	if len(layers) > maxFiles {
		return fmt.Errorf("%d files: at most %d are read", len(layers), maxFiles)
	}
	all, known := int64(0), map[string]bool{}
	for i := range layers {
		layer := &layers[i]
		name := layer.Annotations[ocispec.AnnotationTitle]
		switch all += layer.Size; {
		case layer.MediaType != fileType:
			return fmt.Errorf("a layer of the type %.100q: expected %s", layer.MediaType, fileType)
		case !fileName.MatchString(name):
			return fmt.Errorf("a file called %.100q: expected NAME.yaml or cases/NAME.yaml, with lower-case letters, digits and hyphens", name)
		case known[name]:
			return fmt.Errorf("two files called %s", name)
		case layer.Size < 0 || layer.Size > maxFile:
			return fmt.Errorf("file %s has %d bytes: at most %d are read", name, layer.Size, maxFile)
		case all > maxAll:
			return fmt.Errorf("more than %d bytes in all", maxAll)
		}
		known[name] = true
	}
	return nil
}

// open returns the repository of an artifact, with the credentials that Docker's configuration has for its
// registry. A registry at a loopback address has no TLS.
func open(ref Reference) (*remote.Repository, error) {
	known, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("read credentials of Docker: %w", err)
	}
	local := loopback(ref.Host())
	return &remote.Repository{
		Reference: ref.Reference, PlainHTTP: local, MaxMetadataBytes: maxManifest,
		Client: &auth.Client{
			Client:     &http.Client{Transport: retry.NewTransport(encrypted{local}), CheckRedirect: redirect},
			Credential: credentials.Credential(known),
		},
	}, nil
}

// maxRedirects is how often a registry may send requests on, as those do that keep files elsewhere.
const maxRedirects = 5

func redirect(_ *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// An encrypted transport sends nothing without TLS, and nothing to this machine, unless the registry is on it:
// registries choose where requests are redirected, and who is asked for tokens.
type encrypted struct{ local bool }

// RoundTrip implements [http.RoundTripper].
func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if there := loopback(r.URL.Host); there != e.local || !e.local && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the registry sends requests to %s://%s: expected HTTPS, and no address of this machine", r.URL.Scheme, r.URL.Host)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
