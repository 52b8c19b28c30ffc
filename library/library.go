// Package library has packs of policies that are ready to install, each with test cases, and reads
// packs of other folders in the same layout: pack.yaml, one policy a file, and cases/.
package library

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

//go:embed */*.yaml */cases/*.yaml
var embedded embed.FS

// A Pack is policies that belong together.
type Pack struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Version is a semantic version, such as 1.0.0.
	Version string `json:"version"`
	// Kubernetes are the versions of clusters that the pack is for, such as >=1.30.
	Kubernetes string   `json:"kubernetes"`
	Policies   []Policy `json:"policies"`
	// Include are policies of other packs that [Join] adds to Policies.
	Include []Inclusion `json:"-"`
}

// A Policy is a ClusterObjectPolicy of a pack.
type Policy struct {
	Name string `json:"name"`
	// Pack and Version are those of its pack.
	Pack    string `json:"pack"`
	Version string `json:"version"`
	// Origin is the pack that has its file: another one for policies that a pack includes.
	Origin string `json:"origin"`
	// File is the name of its file without its ending. It is unique in the pack.
	File string                           `json:"-"`
	Spec v1alpha1.ClusterObjectPolicySpec `json:"-"`
	// Text is the file, and Cases the file with its test cases.
	Text  []byte `json:"-"`
	Cases []byte `json:"-"`
	// Params are the default params, nil without any.
	Params map[string]any `json:"params,omitempty"`
}

// Packs returns the packs that come with Usher, by name.
func Packs() ([]Pack, error) {
	packs, err := Load(embedded)
	if err != nil {
		return nil, err
	}
	return Join(packs)
}

// Load reads the packs in the folders of a file system, by name. All of them are read before it
// returns what is wrong with them. Policies that they include are added by [Join].
func Load(fsys fs.FS) ([]Pack, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read packs: %w", err)
	}
	var packs []Pack
	var errs []error
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		sub, err := fs.Sub(fsys, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read pack %s: %w", entry.Name(), err)
		}
		pack, err := LoadPack(sub, entry.Name())
		errs = append(errs, err)
		packs = append(packs, pack)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return packs, nil
}

// Select returns the policies that names name: of a policy, also as PACK/POLICY, or of a pack for all of its policies.
// The order is that of the packs, and each policy occurs once.
func Select(packs []Pack, names []string) ([]Policy, error) {
	used, qualified := map[string]bool{}, map[string]bool{}
	var named []string
	var found []Policy
	for _, pack := range packs {
		used[pack.Name], named = true, append(named, pack.Name)
		for _, p := range pack.Policies {
			inPack := pack.Name + "/" + p.Name
			used[p.Name], qualified[inPack] = true, true
			if slices.ContainsFunc(names, func(name string) bool { return name == p.Name || name == pack.Name || name == inPack }) {
				found = append(found, p)
			}
		}
	}
	var errs []error
	for _, name := range names {
		if used[name] || qualified[name] {
			continue
		}
		// Too many policies may have the name of a pack in theirs.
		pack := suggestion(name, named, "'usher library list' has their names, and list --keyword TEXT finds policies")
		errs = append(errs, fmt.Errorf("no pack or policy %s: %s", name, suggestion(name, slices.Sorted(maps.Keys(used)), pack)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return found, nil
}

// Search returns the policies that have all words of a text in their names, categories, descriptions or
// messages, in upper or lower case.
func Search(packs []Pack, text string) []Policy {
	words := strings.Fields(strings.ToLower(text))
	var found []Policy
	for _, pack := range packs {
		for i := range pack.Policies {
			p := &pack.Policies[i]
			texts := []string{p.Name, p.Pack, p.Spec.Category, p.Spec.Description}
			for k := range p.Spec.Validations {
				texts = append(texts, p.Spec.Validations[k].Message, p.Spec.Validations[k].MessageExpression)
			}
			all := strings.ToLower(strings.Join(texts, "\n"))
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) }) {
				found = append(found, *p)
			}
		}
	}
	return found
}

// suggestion asks whether the name means a similar one, or one of the few that contain it, in the singular or
// the plural. If there is none it returns otherwise.
func suggestion(name string, names []string, otherwise string) string {
	if similar := rule.Suggestion(name, names); similar != "" {
		return similar
	}
	word := strings.TrimSuffix(name, "s")
	longer := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return word == "" || !strings.Contains(other, word) })
	if len(longer) == 0 || len(longer) > 4 {
		return otherwise
	}
	return "did you mean " + strings.Join(longer, " or ") + "?"
}

// Mutates reports whether the policy changes objects.
func (p *Policy) Mutates() bool { return len(p.Spec.Mutations) > 0 }
