package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
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
	// Of returns the names of the installed policies of a pack.
	Of(ctx context.Context, pack string) ([]string, error)
	// Remove returns the command that removes a policy.
	Remove(name string) string
}

// A Plan is what is installed.
type Plan struct {
	// Packs are all packs that there are.
	Packs []library.Pack
	// Policies have the settings at the same index.
	Policies []library.Policy
	Settings []library.Settings
	// Downgrade replaces policies that are of a later version of their pack.
	Downgrade bool
}

// Install writes policies to a target, with the bindings of those that are installed already, and
// prints what changes. It continues after a policy that cannot be installed, unless none can be.
func Install(ctx context.Context, s cli.Streams, target Target, plan *Plan) error {
	refused := 0
	for i := range plan.Policies {
		line, err := plan.install(ctx, s, target, i)
		switch {
		case err != nil && (ctx.Err() != nil || errors.As(err, new(*unusableError))):
			return fmt.Errorf("install policy %s: %w", plan.Policies[i].Name, err)
		case err != nil:
			refused++
			fmt.Fprintf(s.Err, "usher: policy %s is not installed: %v\n", plan.Policies[i].Name, err)
		default:
			fmt.Fprintln(s.Out, line)
		}
	}
	warnOfRest(ctx, s, target, plan)
	if refused > 0 {
		return cli.ErrNegative
	}
	return nil
}

func (plan *Plan) install(ctx context.Context, s cli.Streams, target Target, i int) (string, error) {
	p := &plan.Policies[i]
	installed, err := target.Installed(ctx, p)
	if err != nil {
		return "", err
	}
	if installed == nil {
		manifest, err := p.Manifest(plan.Settings[i])
		if err != nil {
			return "", err
		}
		return target.Write(ctx, p, manifest)
	}
	u, err := newUpdate(p, installed, plan.Settings[i])
	if err != nil {
		return "", err
	}
	changes, err := u.diff()
	switch {
	case err != nil:
		return "", err
	case changes == "":
		return p.Name + " unchanged", nil
	case u.older() && !plan.Downgrade:
		return "", fmt.Errorf("version %s is installed, which is newer than %s of the pack: update usher, or go back with --downgrade", u.version, p.Version)
	}
	fmt.Fprintf(s.Err, "%s: version %s to %s\n", p.Name, cmp.Or(u.version, "unknown"), p.Version)
	for _, line := range u.summary() {
		fmt.Fprintf(s.Err, "  %s\n", line)
	}
	fmt.Fprint(s.Err, indent(strings.TrimRight(changes, "\n")))
	return target.Write(ctx, p, u.manifest)
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

// An unusableError is one that all policies would have.
type unusableError struct{ error }

// Unwrap returns the cause.
func (e *unusableError) Unwrap() error { return e.error }

// Installed implements [Target].
func (c *stored) Installed(ctx context.Context, p *library.Policy) (map[string]any, error) {
	found, err := c.client.Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return found.Object, nil
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, &unusableError{errors.New("the cluster does not know the kind ClusterObjectPolicy: install Usher first, or only its CRDs with kubectl apply --server-side -f deploy/crds")}
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no policy
	case apierrors.IsForbidden(err):
		return nil, &unusableError{withRights(err)}
	}
	return nil, &unusableError{err}
}

// withRights adds the rights that an installation needs to the error of one who has not all of them.
func withRights(err error) error {
	return fmt.Errorf("%w: --apply needs the verbs get, list, create and patch for clusterobjectpolicies.%s", err, v1alpha1.GroupVersion.Group)
}

// Of implements [Target].
func (c *stored) Of(ctx context.Context, pack string) ([]string, error) {
	found, err := c.client.List(ctx, metav1.ListOptions{LabelSelector: library.PackLabel + "=" + pack})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found.Items))
	for i := range found.Items {
		names[i] = found.Items[i].GetName()
	}
	return names, nil
}

// Remove implements [Target].
func (c *stored) Remove(name string) string { return "kubectl delete clusterobjectpolicies " + name }

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
	_, err = c.client.Patch(ctx, p.Name, types.ApplyPatchType, data, o)
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "):
		// Others are of webhooks, which may refuse one policy and accept the next.
		return "", &unusableError{withRights(err)}
	case err != nil:
		return "", err
	}
	if c.dryRun {
		return "would apply " + p.Name, nil
	}
	return "applied " + p.Name, nil
}
