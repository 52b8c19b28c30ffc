package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/library"
)

// FieldManager is the field manager of policies that are applied.
const FieldManager = "usher-library"

// The errors of policies that others write at the same time. Nothing is written then.
var (
	errCreated = errors.New("somebody else has created a policy of this name just now: run the command again")
	errChanged = errors.New("somebody else has changed or deleted it just now: run the command again, which shows what changes")
)

// maxUpdates limits how often an update is tried while the status of the policy changes.
const maxUpdates = 5

// Cluster returns a cluster as the target. With dryRun, API servers decide about each policy as if
// it was written, and write nothing. The policies are those of the namespace, if there is one. Warnings gets what policy admission would warn of, before anything is written.
func Cluster(client dynamic.Interface, namespace string, warnings rest.WarningHandlerWithContext, dryRun bool) Target {
	c := &stored{warnings: warnings, kind: "ClusterObjectPolicy", resource: "clusterobjectpolicies", namespace: namespace}
	if namespace != "" {
		c.kind, c.resource = "ObjectPolicy", "objectpolicies"
	}
	of := client.Resource(v1alpha1.GroupVersion.WithResource(c.resource))
	c.client = of
	if namespace != "" {
		c.client = of.Namespace(namespace)
	}
	if dryRun {
		c.dryRun = []string{metav1.DryRunAll}
	}
	return c
}

type stored struct {
	client   dynamic.ResourceInterface
	warnings rest.WarningHandlerWithContext
	// kind and resource are those of the policies; namespace is empty for policies of the cluster.
	kind, resource, namespace string
	// dryRun is that of requests that write.
	dryRun []string
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
	case cluster.Unserved(err):
		return nil, &unusableError{fmt.Errorf("the cluster does not know the kind %s: install Usher first, or only its CRDs with kubectl apply --server-side -f deploy/crds", c.kind)}
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no policy
	case apierrors.IsForbidden(err):
		return nil, &unusableError{c.withRights(err)}
	}
	return nil, &unusableError{err}
}

// withRights adds the rights that an installation needs to the error of one who has not all of them.
func (c *stored) withRights(err error) error {
	return fmt.Errorf("%w: --apply needs the verbs get, list, create and patch for %s.%s", err, c.resource, v1alpha1.GroupVersion.Group)
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
func (c *stored) Remove(name string) string {
	if c.namespace != "" {
		return "kubectl delete " + c.resource + " -n " + c.namespace + " " + name
	}
	return "kubectl delete " + c.resource + " " + name
}

// Wait implements [Target].
func (c *stored) Wait(written []*library.Policy) string {
	if c.dryRun != nil {
		return ""
	}
	var packs []string
	for _, p := range written {
		if !slices.Contains(packs, p.Pack) {
			packs = append(packs, p.Pack)
		}
	}
	command := "kubectl wait --for=condition=Enforced --timeout=1m " + c.resource
	if c.namespace != "" {
		command += " -n " + c.namespace
	}
	if len(written) == 1 {
		return command + " " + written[0].Name
	}
	return command + " -l '" + library.PackLabel + " in (" + strings.Join(packs, ", ") + ")'"
}

// Write implements [Target]. It writes nothing if the policy is another one than was installed.
func (c *stored) Write(ctx context.Context, p *library.Policy, manifest []byte, installed map[string]any) (string, error) {
	ctx = cluster.Writes(ctx, p.Name)
	data, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	policy := &unstructured.Unstructured{}
	if err := policy.UnmarshalJSON(data); err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	var old *unstructured.Unstructured
	if installed != nil {
		old = &unstructured.Unstructured{Object: installed}
	}
	// Usher may not be there to be asked.
	if err := policies.Admit(ctx, c.warnings, policy, old); err != nil {
		return "", err
	}
	if old == nil {
		err = c.create(ctx, policy)
	} else {
		err = c.update(ctx, policy, old)
	}
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "):
		// Others are of webhooks, which may refuse one policy and accept the next.
		return "", &unusableError{c.withRights(err)}
	case err != nil:
		return "", err
	}
	if c.dryRun != nil {
		return "would apply " + p.Name, nil
	}
	return "applied " + p.Name, nil
}

// create creates a policy. API servers that apply one would change a policy that exists.
func (c *stored) create(ctx context.Context, policy *unstructured.Unstructured) error {
	created, err := c.client.Create(ctx, policy, metav1.CreateOptions{FieldManager: FieldManager, DryRun: c.dryRun})
	if apierrors.IsAlreadyExists(err) {
		return errCreated
	}
	if err == nil {
		// If this fails, the next update does it.
		_, _ = c.own(ctx, created)
	}
	return err
}

// own makes the fields that a policy was created with those that were applied. Otherwise, an update that
// omits one would not remove it.
func (c *stored) own(ctx context.Context, policy *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.dryRun != nil {
		return policy, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(policy, sets.New(FieldManager), FieldManager)
	if err != nil || patch == nil {
		return policy, err
	}
	return c.client.Patch(ctx, policy.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
}

// update applies a policy, unless what is installed has changed. Its status, which Usher writes, may.
func (c *stored) update(ctx context.Context, policy, installed *unstructured.Unstructured) error {
	for range maxUpdates {
		current, err := c.own(ctx, installed)
		if err == nil {
			policy.SetUID(current.GetUID())
			policy.SetResourceVersion(current.GetResourceVersion())
			_, err = c.client.Apply(ctx, policy.GetName(), policy, metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: c.dryRun})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		found, err := c.client.Get(ctx, policy.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return errChanged
		case err != nil:
			return err
		case !cluster.Same(found, installed):
			return errChanged
		}
		installed = found
	}
	return errChanged
}
