package library

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/library"
)

// A folder is where manifests are written. Links that lead out of it are errors.
type folder struct {
	path string
	// root is nil if the folder does not exist, and nothing is to be written.
	root   *os.Root
	dryRun bool
}

// openFolder opens a folder, and makes it unless nothing is to be written.
func openFolder(path string, dryRun bool) (*folder, error) {
	if !dryRun {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil && (!dryRun || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	return &folder{path, root, dryRun}, nil
}

func (d *folder) close() {
	if d.root != nil {
		_ = d.root.Close()
	}
}

func (d *folder) read(name string) ([]byte, error) {
	if d.root == nil {
		return nil, fs.ErrNotExist
	}
	return d.root.ReadFile(name)
}

// Installed implements [Target].
func (d *folder) Installed(_ context.Context, p *library.Policy) (map[string]any, error) {
	content, err := d.read(p.Name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no policy
	}
	var installed map[string]any
	if err == nil {
		err = yaml.Unmarshal(content, &installed)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.file(p), err)
	}
	if installed == nil {
		installed = map[string]any{}
	}
	return installed, nil
}

// Of implements [Target]. Files that are no policies of packs are none of its business.
func (d *folder) Of(_ context.Context, pack string) ([]string, error) {
	if d.root == nil {
		return nil, nil
	}
	files, err := fs.Glob(d.root.FS(), "*.yaml")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		var policy metav1.PartialObjectMetadata
		if content, err := d.read(file); err != nil || yaml.Unmarshal(content, &policy) != nil {
			continue
		}
		if policy.Labels[library.PackLabel] == pack && policy.Name+".yaml" == file {
			names = append(names, policy.Name)
		}
	}
	return names, nil
}

// Remove implements [Target].
func (d *folder) Remove(name string) string { return "rm " + filepath.Join(d.path, name+".yaml") }

// Wait implements [Target].
func (*folder) Wait([]*library.Policy) string { return "" }

// Write implements [Target].
func (d *folder) Write(_ context.Context, p *library.Policy, manifest []byte, _ map[string]any) (string, error) {
	if d.dryRun {
		return "would write " + d.file(p), nil
	}
	if err := d.root.WriteFile(p.Name+".yaml", manifest, 0o644); err != nil {
		return "", err
	}
	return "wrote " + d.file(p), nil
}

func (d *folder) file(p *library.Policy) string { return filepath.Join(d.path, p.Name+".yaml") }
