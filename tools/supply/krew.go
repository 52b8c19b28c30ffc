package main

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// krew writes the manifest of the kubectl plugin usher, for https://github.com/kubernetes-sigs/krew-index: one platform
// for each archive. Without archives, as in a dry run, it has no platforms.
func (r *release) krew(dir string) error {
	type (
		file struct {
			From string `json:"from"`
			To   string `json:"to"`
		}
		platform struct {
			Selector map[string]map[string]string `json:"selector"`
			URI      string                       `json:"uri"`
			SHA256   string                       `json:"sha256"`
			Files    []file                       `json:"files"`
			Bin      string                       `json:"bin"`
		}
	)
	platforms := []platform{}
	for _, archive := range r.of("Archive") {
		ending := ""
		if archive.OS == "windows" {
			ending = ".exe"
		}
		binary := "usher" + ending
		platforms = append(platforms, platform{
			Selector: map[string]map[string]string{"matchLabels": {"os": archive.OS, "arch": archive.Arch}},
			URI:      "https://github.com/usher-dev/usher/releases/download/v" + r.Version + "/" + archive.Name,
			SHA256:   archive.digest,
			// Usher looks for usher-verify beside itself.
			Files: []file{{binary, "."}, {"usher-verify" + ending, "."}, {"LICENSE", "."}},
			Bin:   binary,
		})
	}
	manifest := map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "usher"},
		"spec": map[string]any{
			"version":          "v" + r.Version,
			"homepage":         "https://github.com/usher-dev/usher",
			"shortDescription": "Check, test and watch admission policies",
			"description": strings.Join([]string{
				"Checks what is wrong with policies, tests them, says what they do with objects and why,",
				"audits what exists in a cluster, and follows the decisions of Usher.", "",
			}, "\n"),
			"platforms": platforms,
		},
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "usher.yaml"), text, 0o644)
}
