package policytest

import (
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/manifest"
)

// An Unnamed is a policy that no test has.
type Unnamed struct {
	Policy usher.PolicyRef `json:"policy"`
	File   string          `json:"file"`
}

// Beside are the policies beside the tests of folders: how many there are, and those that no test has.
type Beside struct {
	Total   int       `json:"total"`
	Unnamed []Unnamed `json:"unnamed,omitempty"`
}

// PoliciesBeside returns the policies in folders with tests, in the folders of the files that tests name, and in a
// folder policies beside a folder cases. Of paths that are no folders there are none: who names a file means its
// tests. Files that cannot be read have none either.
func PoliciesBeside(paths []string, tests []Test) Beside {
	named := map[usher.PolicyRef]bool{}
	var folders []string
	for _, t := range tests {
		folders = append(folders, t.names(named)...)
	}
	var files []string
	found := false
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		found = true
		all, _ := manifest.Files(path)
		files = append(files, all...)
		if absolute, err := filepath.Abs(path); err == nil && filepath.Base(absolute) == "cases" {
			folders = append(folders, filepath.Join(path, "..", "policies"))
		}
	}
	if !found {
		return Beside{}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		files = append(files, manifestsIn(folder)...)
	}
	slices.Sort(files)
	beside, seen := Beside{}, map[usher.PolicyRef]bool{}
	left := int64(maxNamed)
	for _, file := range slices.Compact(files) {
		info, err := os.Stat(file)
		if err != nil || info.Size() > left {
			continue
		}
		left -= info.Size()
		for _, ref := range policiesOf(file) {
			if seen[ref] {
				continue
			}
			seen[ref] = true
			beside.Total++
			if !named[ref] {
				beside.Unnamed = append(beside.Unnamed, Unnamed{ref, file})
			}
		}
	}
	return beside
}

// names notes the policies of a test, and returns the folders of the files that it names.
func (t Test) names(named map[usher.PolicyRef]bool) []string {
	var folders []string
	if t.suite != nil {
		for _, r := range t.suite.stage.rules {
			named[r.Policy.Ref] = true
		}
	}
	if c := t.admission; c != nil {
		for _, policy := range c.Policies {
			if ref, ok := refOf(policy); ok {
				named[ref] = true
			}
		}
		for _, file := range c.files {
			folders = append(folders, filepath.Join(filepath.Dir(c.File), filepath.Dir(file)))
		}
	}
	return folders
}

// manifestsIn are the files right in a folder that may have policies.
func manifestsIn(folder string) []string {
	entries, _ := os.ReadDir(folder)
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files
}

// policiesOf are the policies in a file that decide something by themselves.
func policiesOf(file string) []usher.PolicyRef {
	documents, _ := readDocuments(file)
	var refs []usher.PolicyRef
	for _, d := range documents {
		var tree map[string]any
		if !isObject(d.json) || json.UnmarshalCaseSensitivePreserveInts(d.json, &tree) != nil {
			continue
		}
		_ = manifest.Each(tree, func(object map[string]any) error {
			if ref, ok := refOf(object); ok {
				refs = append(refs, ref)
			}
			return nil
		})
	}
	return refs
}

// refOf returns the reference of a policy; false for other objects, for exemptions, candidates and bindings.
func refOf(object map[string]any) (usher.PolicyRef, bool) {
	k := kindOf(object)
	version, _ := object["apiVersion"].(string)
	if k.Kind == "" || k.GroupVersion().String() != version && !k.Foreign || k.Exempts || k.Candidate || k.Foreign && !k.Exemptible {
		return usher.PolicyRef{}, false
	}
	metadata, _ := object["metadata"].(map[string]any)
	ref := usher.PolicyRef{Kind: k.Kind}
	ref.Name, _ = metadata["name"].(string)
	if k.Namespaced {
		ref.Namespace, _ = metadata["namespace"].(string)
	}
	return ref, ref.Name != ""
}
