package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
)

const (
	// bundleType begins the types of signatures as cosign keeps them: bundles of Sigstore that refer to what is signed.
	bundleType = "application/vnd.dev.sigstore.bundle"

	// What is read: signatures of an artifact, bytes in each, and what refers to the artifact at all.
	maxSignatures = 20
	maxSignature  = 256 << 10
	maxReferrers  = 1000
	// maxRequests is how often the registry is asked: pages of nothing would never end.
	maxRequests = 100
)

var errReferrers = fmt.Errorf("more than %d signatures, or %d artifacts that refer to it", maxSignatures, maxReferrers)

// Signatures returns the bundles that a registry has for what has a digest. Whether they are signatures, of that and
// by whom, is not known.
func Signatures(ctx context.Context, ref Reference, of string) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	all, err := signatures(ctx, ref, of)
	if err != nil {
		return nil, fmt.Errorf("read signatures of %s: %w", ref, err)
	}
	return all, nil
}

func signatures(ctx context.Context, ref Reference, of string) ([][]byte, error) {
	repository, err := open(ref)
	if err != nil {
		return nil, err
	}
	repository.Client = &limited{Client: repository.Client, left: maxRequests}
	var found []ocispec.Descriptor
	seen := 0
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(of)}
	err = repository.Referrers(ctx, subject, "", func(referrers []ocispec.Descriptor) error {
		seen += len(referrers)
		for i := range referrers {
			if strings.HasPrefix(referrers[i].ArtifactType, bundleType) {
				found = append(found, referrers[i])
			}
		}
		if len(found) > maxSignatures || seen > maxReferrers {
			return errReferrers
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for i := range found {
		bundle, err := bundleOf(ctx, repository, found[i])
		if err != nil {
			return nil, fmt.Errorf("signature %d: %w", i+1, err)
		}
		all = append(all, bundle)
	}
	return all, nil
}

// A limited client sends so many requests.
type limited struct {
	remote.Client

	left int
}

// Do implements [remote.Client].
func (l *limited) Do(r *http.Request) (*http.Response, error) {
	if l.left--; l.left < 0 {
		return nil, fmt.Errorf("more than %d requests", maxRequests)
	}
	return l.Client.Do(r)
}

// bundleOf returns the one layer of a manifest.
func bundleOf(ctx context.Context, repository *remote.Repository, described ocispec.Descriptor) ([]byte, error) {
	if described.MediaType != ocispec.MediaTypeImageManifest || described.Size < 0 || described.Size > maxSignature {
		return nil, fmt.Errorf("its manifest is none, or larger than %d bytes", maxSignature)
	}
	text, err := content.FetchAll(ctx, repository, described)
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if len(manifest.Layers) != 1 || !strings.HasPrefix(manifest.Layers[0].MediaType, bundleType) {
		return nil, errors.New("expected one layer, which is a bundle")
	}
	if size := manifest.Layers[0].Size; size < 0 || size > maxSignature {
		return nil, fmt.Errorf("it has %d bytes: at most %d are read", size, maxSignature)
	}
	return content.FetchAll(ctx, repository, manifest.Layers[0])
}
