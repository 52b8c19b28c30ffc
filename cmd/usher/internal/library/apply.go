package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/yamldiff"
	"github.com/usher-dev/usher/library"
)

// FieldManager is the field manager of policies that are applied.
const FieldManager = "usher-library"

// A Target is where policies are installed.
type Target interface {
	// Installed returns the policy of that name, nil if there is none.
	Installed(ctx context.Context, p *library.Policy) (map[string]any, error)
	// Write writes the manifest of a policy, unless it only tries to, and says what it did.
	Write(ctx context.Context, p *library.Policy, manifest []byte) (string, error)
}

// Install writes policies to a target, with the bindings of those that are installed already, and
// prints what changes. It continues after a policy that cannot be installed.
func Install(ctx context.Context, s cli.Streams, target Target, chosen []library.Policy, settings []library.Settings) error {
	refused := 0
	for i := range chosen {
		line, err := install(ctx, s, target, &chosen[i], settings[i])
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("install policy %s: %w", chosen[i].Name, err)
		case err != nil:
			refused++
			fmt.Fprintf(s.Err, "usher: policy %s is not installed: %v\n", chosen[i].Name, err)
		default:
			fmt.Fprintln(s.Out, line)
		}
	}
	if refused > 0 {
		return cli.ErrNegative
	}
	return nil
}

// errForeign is the error of a policy that is not of a pack.
var errForeign = errors.New("there is a policy of this name that is not of a pack (it has no label " + library.PackLabel + "): rename or delete it first")

func install(ctx context.Context, s cli.Streams, target Target, p *library.Policy, settings library.Settings) (string, error) {
	installed, err := target.Installed(ctx, p)
	if err != nil {
		return "", err
	}
	if installed == nil {
		manifest, err := p.Manifest(settings)
		if err != nil {
			return "", err
		}
		return target.Write(ctx, p, manifest)
	}
	metadata, _ := installed["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if labels[library.PackLabel] != p.Pack {
		return "", errForeign
	}
	spec, _ := installed["spec"].(map[string]any)
	if bindings, ok := spec["bindings"].([]any); ok {
		if settings.Bindings, err = json.Marshal(bindings); err != nil {
			return "", fmt.Errorf("encode bindings: %w", err)
		}
	}
	manifest, err := p.Manifest(settings)
	if err != nil {
		return "", err
	}
	changes, err := changesOf(installed, manifest)
	if err != nil {
		return "", err
	}
	if changes == "" {
		return p.Name + " unchanged", nil
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	fmt.Fprintf(s.Err, "%s: version %v to %s\n%s", p.Name, annotations[library.VersionAnnotation], p.Version, indent(strings.TrimRight(changes, "\n")))
	return target.Write(ctx, p, manifest)
}

// changesOf returns what a manifest changes about a policy that is installed. Of the metadata these
// are the labels and annotations that the manifest has: others stay.
func changesOf(installed map[string]any, manifest []byte) (string, error) {
	var next map[string]any
	if err := yaml.Unmarshal(manifest, &next); err != nil {
		return "", fmt.Errorf("parse manifest: %w", err)
	}
	have, want := described(installed), described(next)
	for _, kind := range []string{"labels", "annotations"} {
		old, _ := have[kind].(map[string]any)
		wanted, _ := want[kind].(map[string]any)
		for key := range old {
			if _, ok := wanted[key]; !ok {
				delete(old, key)
			}
		}
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

// Installed implements [Target].
func (d *folder) Installed(_ context.Context, p *library.Policy) (map[string]any, error) {
	content, err := os.ReadFile(d.file(p))
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

// Write implements [Target].
func (d *folder) Write(_ context.Context, p *library.Policy, manifest []byte) (string, error) {
	if d.dryRun {
		return "would write " + d.file(p), nil
	}
	if err := os.WriteFile(d.file(p), manifest, 0o644); err != nil {
		return "", err
	}
	return "wrote " + d.file(p), nil
}

// Cluster returns a cluster as the target. With dryRun, API servers decide about each policy as if
// it was written, and write nothing.
func Cluster(client dynamic.Interface, dryRun bool) Target {
	return &stored{client.Resource(v1alpha1.GroupVersion.WithResource("clusterobjectpolicies")), dryRun}
}

type stored struct {
	client dynamic.ResourceInterface
	dryRun bool
}

// Installed implements [Target].
func (c *stored) Installed(ctx context.Context, p *library.Policy) (map[string]any, error) {
	found, err := c.client.Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no policy
	}
	if err != nil {
		return nil, err
	}
	return found.Object, nil
}

// Write implements [Target].
func (c *stored) Write(ctx context.Context, p *library.Policy, manifest []byte) (string, error) {
	data, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	force := true
	o := metav1.PatchOptions{FieldManager: FieldManager, Force: &force}
	if c.dryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	if _, err := c.client.Patch(ctx, p.Name, types.ApplyPatchType, data, o); err != nil {
		return "", err
	}
	if c.dryRun {
		return "would apply " + p.Name, nil
	}
	return "applied " + p.Name, nil
}
