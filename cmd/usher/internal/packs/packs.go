// Package packs has the flags that select policies of packs, and what users decide about them.
package packs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/artifact"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/library"
	"github.com/usher-dev/usher/source/dir"
)

// Flags select packs, and have the settings of their policies.
type Flags struct {
	folders, params []string
	namespaces      []string
	action          string
	// within is the namespace of the policies, empty for policies of the cluster.
	within   string
	signedBy string
	command  *cobra.Command
	// all are the packs, once they are read.
	all []library.Pack
}

// Register adds the flag that names more packs.
func (f *Flags) Register(cmd *cobra.Command) {
	f.command = cmd
	cmd.Flags().StringArrayVar(&f.folders, "packs", nil, "folder with a pack.yaml, or with folders that have one: packs of your own; or one in a registry, oci://HOST/NAME@sha256:DIGEST (repeatable)")
	cmd.Flags().StringVar(&f.signedBy, "signed-by", "", SignedBy)
}

// RegisterSettings adds the flags with the settings of policies.
func (f *Flags) RegisterSettings(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.params, "params", nil, "value of a param in YAML, as in 'registries=[a.example, b.example]', or 'allowed-registries.registries=[...]' for one policy; @FILE reads a YAML file with such names and values (repeatable)")
	cmd.Flags().StringVar(&f.action, "action", "", "what follows from a validation that fails: Warn, Deny or Audit (default: that of the pack, Warn)")
	cli.Offer(cmd, "action", "Warn", "Deny", "Audit")
}

// RegisterNamespaces adds the flag for settings of single namespaces.
func (f *Flags) RegisterNamespaces(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.namespaces, "namespaces", nil, "namespaces that --action and --params are for, as in shop,pay: a binding for each is added, or changed, and what other namespaces have stays")
}

// Packs returns the packs that come with Usher, and those of the folders.
func (f *Flags) Packs() ([]library.Pack, error) {
	if f.all != nil {
		return f.all, nil
	}
	all, err := library.Packs()
	if err != nil {
		return nil, err
	}
	if f.signedBy != "" && !slices.ContainsFunc(f.folders, inRegistry) {
		return nil, errors.New("--signed-by is for packs in registries: --packs names none")
	}
	for _, folder := range f.folders {
		found, err := f.read(folder)
		if err != nil {
			return nil, fmt.Errorf("--packs %s: %w", folder, err)
		}
		all = append(all, found...)
	}
	f.all, err = library.Join(all)
	return f.all, err
}

func inRegistry(folder string) bool { return strings.HasPrefix(folder, artifact.Scheme) }

// read returns the pack in a registry or a folder, or those in the folders of it. Links that lead out of the
// folder are not followed: packs come from others.
func (f *Flags) read(folder string) ([]library.Pack, error) {
	if inRegistry(folder) {
		pack, err := pinned(f.command.Context(), folder, f.signedBy)
		return []library.Pack{pack}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	if _, err := root.Stat(library.File); err == nil {
		pack, err := library.LoadPack(regular{root}, filepath.Base(filepath.Clean(folder)))
		return []library.Pack{pack}, err
	}
	found, err := library.Load(regular{root})
	if err == nil && len(found) == 0 {
		err = errors.New("no pack: expected a pack.yaml, or folders that have one")
	}
	return found, err
}

// maxFile is the largest file of a pack that is read, in bytes.
const maxFile = 16 << 20

// A regular opens folders and regular files of at most [maxFile] only: a pipe that a pack has would never end.
type regular struct{ root *os.Root }

// Open implements [fs.FS].
func (r regular) Open(name string) (fs.File, error) {
	info, err := r.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	if info.Mode().IsRegular() && info.Size() > maxFile {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("larger than %d MiB", maxFile>>20)}
	}
	return r.root.FS().Open(name)
}

// Select returns the policies of the packs and policies that names name, and their settings, which
// are in the same order.
func (f *Flags) Select(names []string) ([]library.Policy, []library.Settings, error) {
	if f.action != "" && f.action != "Warn" && f.action != "Deny" && f.action != "Audit" {
		return nil, nil, fmt.Errorf("--action %s: use one of Warn, Deny, Audit", f.action)
	}
	all, err := f.Packs()
	if err != nil {
		return nil, nil, err
	}
	found, err := library.Select(all, names)
	if err != nil {
		return nil, nil, err
	}
	settings := make([]library.Settings, len(found))
	for i := range settings {
		settings[i].Action, settings[i].Namespaces = f.action, f.namespaces
	}
	if err := f.checkNamespaces(found, settings); err != nil {
		return nil, nil, err
	}
	for _, param := range f.params {
		values, err := valuesOf(param)
		if err != nil {
			return nil, nil, fmt.Errorf("--params %s: %w", param, err)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := setParam(found, settings, name, values[name]); err != nil {
				return nil, nil, fmt.Errorf("--params %s: %w", param, err)
			}
		}
	}
	return found, settings, nil
}

// valuesOf returns the values of NAME=VALUE, or of the file in @FILE.
func valuesOf(param string) (map[string]any, error) {
	var values map[string]any
	if file, ok := strings.CutPrefix(param, "@"); ok {
		content, err := manifest.Read(file, maxFile)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(content, &values); err != nil {
			return nil, fmt.Errorf("expected a map of names and values in YAML: %w", err)
		}
		return values, nil
	}
	name, text, ok := strings.Cut(param, "=")
	if !ok {
		return nil, errors.New("expected NAME=VALUE, POLICY.NAME=VALUE, or @FILE")
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("expected a value in YAML: %w", err)
	}
	return map[string]any{name: value}, nil
}

// setParam sets NAME in all policies that have the param, or POLICY.NAME in one.
func setParam(found []library.Policy, settings []library.Settings, path string, value any) error {
	policy, name, one := strings.Cut(path, ".")
	if !one {
		name = path
	}
	used := false
	for i := range found {
		_, has := found[i].Params[name]
		if one && found[i].Name != policy || !one && !has {
			continue
		}
		used = true
		if settings[i].Params == nil {
			settings[i].Params = map[string]any{}
		}
		settings[i].Params[name] = value
		if err := found[i].CheckParams(settings[i].Params); err != nil {
			return fmt.Errorf("policy %s: %w", found[i].Name, err)
		}
	}
	if !used {
		return unknown(found, path)
	}
	return nil
}

// unknown returns the error about a param that none of the policies has, with those that there are.
func unknown(found []library.Policy, path string) error {
	var names []string
	for i := range found {
		for name := range found[i].Params {
			names = append(names, name, found[i].Name+"."+name)
		}
	}
	if suggestion := rule.Suggestion(path, names); suggestion != "" {
		return fmt.Errorf("none of the policies has the param %s: %s", path, suggestion)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, ".") })
	if len(names) == 0 {
		return fmt.Errorf("none of the policies has the param %s, or any other", path)
	}
	slices.Sort(names)
	return fmt.Errorf("none of the policies has the param %s: there are %s", path, strings.Join(slices.Compact(names), ", "))
}

// Decode returns policies with settings as they are when they are stored.
func Decode(found []library.Policy, settings []library.Settings) ([]api.Policy, error) {
	var all []api.Policy
	for i := range found {
		manifest, err := found[i].Manifest(settings[i])
		if err != nil {
			return nil, err
		}
		set := dir.Parse(found[i].Pack+"/"+found[i].File+".yaml", manifest)
		for _, u := range set.Unreadable {
			return nil, fmt.Errorf("policy %s: %w", found[i].Name, u.Err)
		}
		all = append(all, set.Policies...)
	}
	return all, nil
}

// Complete offers the names of packs and policies.
func (f *Flags) Complete(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := f.Packs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, pack := range all {
		names = append(names, cobra.CompletionWithDesc(pack.Name, pack.Title))
		for i := range pack.Policies {
			names = append(names, pack.Policies[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// HasSettings reports whether the flags have settings of policies.
func (f *Flags) HasSettings() bool { return f.action != "" || len(f.params)+len(f.namespaces) > 0 }

// Action returns the action that the flags set, empty for none.
func (f *Flags) Action() string { return f.action }

// Namespaces returns the namespaces that the settings are for, none for all.
func (f *Flags) Namespaces() []string { return f.namespaces }
