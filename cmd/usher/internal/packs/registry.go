package packs

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/library"
)

// pinned returns the pack of a registry, which has to be named by its digest.
func pinned(ctx context.Context, reference, signedBy string) (library.Pack, error) {
	ref, err := artifact.Parse(reference)
	if err != nil {
		return library.Pack{}, err
	}
	pack, _, at, err := Pull(ctx, ref, signedBy)
	if err == nil && !ref.Pinned() {
		err = fmt.Errorf("expected a digest, since a tag can mean something else tomorrow: it is %s now", at)
	}
	return pack, err
}

// Pull returns a pack that a registry has, its files, and the reference with its digest. Unless signedBy is empty, it
// is the file that names who has to have signed that digest; what nobody has signed is not read.
func Pull(ctx context.Context, ref artifact.Reference, signedBy string) (library.Pack, map[string][]byte, string, error) {
	files, digest, err := artifact.Pull(ctx, ref)
	if err != nil {
		return library.Pack{}, nil, "", err
	}
	if signedBy != "" {
		if err := verify(ctx, ref, digest, signedBy); err != nil {
			return library.Pack{}, nil, "", err
		}
	}
	folder, err := inMemory(files)
	if err != nil {
		return library.Pack{}, nil, "", err
	}
	pack, err := library.LoadPack(folder, ref.Repository)
	return pack, files, ref.At(digest), err
}

// Files returns the pack in a folder, and its files.
func Files(path string) (library.Pack, map[string][]byte, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return library.Pack{}, nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	pack, err := library.LoadPack(regular{root}, path)
	if err != nil {
		return library.Pack{}, nil, err
	}
	description, err := fs.ReadFile(regular{root}, library.File)
	if err != nil {
		return library.Pack{}, nil, err
	}
	files := map[string][]byte{library.File: description}
	for _, p := range pack.Policies {
		files[p.File+".yaml"], files["cases/"+p.File+".yaml"] = p.Text, p.Cases
	}
	return pack, files, nil
}

// inMemory returns a folder with files.
func inMemory(files map[string][]byte) (fs.FS, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}
