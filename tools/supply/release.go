package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A release is what goreleaser has built: dist/metadata.json and dist/artifacts.json.
type release struct {
	root      string
	Tag       string `json:"tag"`
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	artifacts []artifact
}

// An artifact is a file of a release. The path is relative to the root.
type artifact struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	OS     string `json:"goos"`
	Arch   string `json:"goarch"`
	Type   string `json:"type"`
	digest string
}

func read(root string) (*release, error) {
	r := &release{root: root}
	for name, into := range map[string]any{"metadata.json": r, "artifacts.json": &r.artifacts} {
		text, err := os.ReadFile(filepath.Join(root, "dist", name))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("read dist/%s: %w", name, err)
		}
	}
	for i := range r.artifacts {
		a := &r.artifacts[i]
		if a.Type != "Binary" && a.Type != "Archive" {
			continue
		}
		if !filepath.IsLocal(a.Path) {
			return nil, fmt.Errorf("read dist/artifacts.json: %q is outside of the root", a.Path)
		}
		var err error
		if a.digest, err = digestOf(filepath.Join(root, a.Path)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// of returns the artifacts of a type.
func (r *release) of(kind string) []artifact {
	var all []artifact
	for _, a := range r.artifacts {
		if a.Type == kind {
			all = append(all, a)
		}
	}
	return all
}

// files are the archives, or the binaries if there are no archives, since a dry run builds no more.
func (r *release) files() ([]subject, error) {
	artifacts := r.of("Archive")
	if len(artifacts) == 0 {
		artifacts = r.of("Binary")
	}
	if len(artifacts) == 0 {
		return nil, fmt.Errorf("dist has neither archives nor binaries")
	}
	var all []subject
	for _, a := range artifacts {
		all = append(all, subject{strings.TrimPrefix(filepath.ToSlash(a.Path), "dist/"), a.digest})
	}
	return all, nil
}

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
