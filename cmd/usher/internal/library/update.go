package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/yamldiff"
	"github.com/usher-dev/usher/library"
)

// errForeign is the error of a policy that is not of a pack.
var errForeign = errors.New("there is a policy of this name that is not of a pack (it has no label " + library.PackLabel + "): rename or delete it first")

// An update is a policy that is installed, and what replaces it.
type update struct {
	policy    *library.Policy
	installed map[string]any
	// version is the version of the pack that is installed.
	version string
	// namespaced says that it is a policy of a namespace.
	namespaced bool
	manifest   []byte
	next       map[string]any
}

// newUpdate returns the update of a policy, with the bindings that it has.
func newUpdate(p *library.Policy, installed map[string]any, settings library.Settings) (*update, error) {
	metadata, _ := installed["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	switch pack, _ := labels[library.PackLabel].(string); {
	case pack == "":
		return nil, errForeign
	case pack != p.Pack:
		return nil, fmt.Errorf("there is a policy of this name of another pack, %s: rename or delete it first", pack)
	}
	if namespace, _ := metadata["namespace"].(string); namespace != settings.Within {
		return nil, fmt.Errorf("there is a policy of this name of %s: use another folder, or --namespace as for that one", cmp.Or(namespace, "the cluster"))
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	u := &update{policy: p, installed: installed, namespaced: settings.Within != ""}
	u.version, _ = annotations[library.VersionAnnotation].(string)
	spec, _ := installed["spec"].(map[string]any)
	var err error
	if bindings, ok := spec["bindings"].([]any); ok {
		if settings.Bindings, err = json.Marshal(bindings); err != nil {
			return nil, fmt.Errorf("encode bindings: %w", err)
		}
	}
	if u.manifest, err = p.Manifest(settings); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(u.manifest, &u.next); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	return u, u.checkParams()
}

// checkParams returns an error for a binding with a param of another type than the policy reads.
func (u *update) checkParams() error {
	spec, _ := u.next["spec"].(map[string]any)
	bindings, _ := spec["bindings"].([]any)
	for _, b := range bindings {
		binding, _ := b.(map[string]any)
		params, _ := binding["params"].(map[string]any)
		known := maps.Clone(params)
		maps.DeleteFunc(known, func(name string, _ any) bool { return u.policy.Params[name] == nil })
		if err := u.policy.CheckParams(known); err != nil {
			return fmt.Errorf("binding %v: %w: change it, or set it with --params", binding["name"], err)
		}
	}
	return nil
}

// older reports whether the pack is older than what is installed.
func (u *update) older() bool {
	have, err := version.ParseGeneric(u.version)
	if err != nil {
		// Somebody has changed the annotation.
		return false
	}
	next, err := version.ParseGeneric(u.policy.Version)
	return err == nil && next.LessThan(have)
}

// diff returns what the update changes, empty for nothing. Of the metadata these are the labels and
// annotations that the pack has: others stay.
func (u *update) diff() (string, error) {
	have, want := described(u.installed), described(u.next)
	for _, kind := range []string{"labels", "annotations"} {
		old, _ := have[kind].(map[string]any)
		wanted, _ := want[kind].(map[string]any)
		maps.DeleteFunc(old, func(key string, _ any) bool { return wanted[key] == nil })
	}
	return yamldiff.Of(have, want)
}

// described returns the parts of a policy that a manifest has. It is a copy in its upper levels.
func described(policy map[string]any) map[string]any {
	metadata, _ := policy["metadata"].(map[string]any)
	parts := map[string]any{"spec": policy["spec"]}
	for _, kind := range []string{"labels", "annotations"} {
		values, _ := metadata[kind].(map[string]any)
		copied := map[string]any{}
		maps.Copy(copied, values)
		parts[kind] = copied
	}
	return parts
}

// summary returns what the update means, a line each.
func (u *update) summary() []string {
	lines := []string{}
	old, _ := u.installed["spec"].(map[string]any)
	next, _ := u.next["spec"].(map[string]any)
	fields := map[string]any{}
	maps.Copy(fields, old)
	maps.Copy(fields, next)
	changed := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(field string) bool {
		return field == "bindings" || plain(old[field]) == plain(next[field])
	})
	about := slices.DeleteFunc(slices.Clone(changed), func(field string) bool {
		return !slices.Contains([]string{"description", "category", "severity", "links"}, field)
	})
	// Flags change bindings, which say what follows from a violation.
	bound := plain(old["bindings"]) == plain(next["bindings"])
	switch {
	case len(changed) == 0 && bound:
		lines = append(lines, "decides as before")
	case len(changed) == 0:
	case u.version == u.policy.Version:
		lines = append(lines, "overwrites changes that were made after the installation: "+strings.Join(changed, ", "))
	case len(about) == len(changed) && bound:
		lines = append(lines, "decides as before; changes "+strings.Join(changed, ", "))
	default:
		lines = append(lines, "changes "+strings.Join(changed, ", "))
	}
	for _, name := range denying(old, next) {
		line := "binding " + name + " only warned, and denies now"
		if !u.namespaced {
			line += ": --namespaces NAMESPACE denies in that one alone"
		}
		lines = append(lines, line)
	}
	before := paramsOf(old)
	for _, name := range slices.Sorted(maps.Keys(u.policy.Params)) {
		if !slices.Contains(before, name) {
			value, err := json.Marshal(u.policy.Params[name])
			if err == nil {
				lines = append(lines, fmt.Sprintf("new param %s, with the default %s", name, value))
			}
		}
	}
	for _, name := range before {
		if _, ok := u.policy.Params[name]; !ok && len(u.policy.Spec.Bindings) <= 1 {
			lines = append(lines, "no longer reads the param "+name+": remove it from the bindings")
		}
	}
	return lines
}

// denying returns the names of the bindings that only warn in one spec and deny in the next.
func denying(old, next map[string]any) []string {
	actions := func(spec map[string]any) (of map[string]string, names []string) {
		of = map[string]string{}
		bindings, _ := spec["bindings"].([]any)
		for _, b := range bindings {
			binding, _ := b.(map[string]any)
			name := printable.Line(fmt.Sprint(binding["name"]))
			names, of[name] = append(names, name), plain(binding["validationActions"])
		}
		return of, names
	}
	before, _ := actions(old)
	after, names := actions(next)
	return slices.DeleteFunc(names, func(name string) bool { return before[name] != `["Warn"]` || !strings.Contains(after[name], `"Deny"`) })
}

// plain returns a value as JSON has it: numbers of a cluster and of a file have other types.
func plain(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// paramsOf returns the names of the params in the bindings of a policy.
func paramsOf(spec map[string]any) []string {
	names := map[string]bool{}
	bindings, _ := spec["bindings"].([]any)
	for _, b := range bindings {
		binding, _ := b.(map[string]any)
		params, _ := binding["params"].(map[string]any)
		for name := range params {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// warnOfRest names policies that an earlier version of the packs has installed, and that these do not
// have any more.
func warnOfRest(ctx context.Context, s cli.Streams, target Target, plan *Plan) {
	chosen := map[string]bool{}
	for i := range plan.Policies {
		chosen[plan.Policies[i].Pack] = true
	}
	for _, pack := range plan.Packs {
		if !chosen[pack.Name] {
			continue
		}
		installed, err := target.Of(ctx, pack.Name)
		if err != nil {
			fmt.Fprintf(s.Err, "note: cannot tell whether there are policies that pack %s does not have any more: %v\n", pack.Name, err)
			continue
		}
		for _, name := range installed {
			if !slices.ContainsFunc(pack.Policies, func(p library.Policy) bool { return p.Name == name }) {
				fmt.Fprintf(s.Err, "note: pack %s %s does not have the policy %s any more, which stays in force: move its bindings to the policy that replaces it, if there is one, and remove it with '%s'\n",
					pack.Name, pack.Version, name, target.Remove(name))
			}
		}
	}
}
