package promote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/yamldiff"
)

// maxWrites limits how often a write is tried while the status of the policy changes.
const maxWrites = 5

// errChanged is the error of a policy that others write at the same time.
var errChanged = errors.New("somebody else has written it just now: run the command again, which shows what changes")

// A change is one write of a promotion.
type change struct {
	client dynamic.ResourceInterface
	ref    usher.PolicyRef
	// stored is the policy in the cluster, nil if there is none. next replaces it, nil if it is deleted.
	stored, next *unstructured.Unstructured
	// diff is what the change makes of the policy; empty for nothing.
	diff string
}

// next returns what is written in place of a stored policy: exactly the spec that was evaluated.
// Labels and annotations of others stay, but for what says that the policy decides nothing.
func next(policy *unstructured.Unstructured, ref usher.PolicyRef, stored *unstructured.Unstructured) *unstructured.Unstructured {
	object := maps.Clone(policy.Object)
	delete(object, "status")
	object["metadata"] = map[string]any{}
	written := &unstructured.Unstructured{Object: object}
	written.SetName(ref.Name)
	written.SetNamespace(ref.Namespace)
	labels, annotations := map[string]string{}, map[string]string{}
	if stored != nil {
		written.SetUID(stored.GetUID())
		written.SetResourceVersion(stored.GetResourceVersion())
		written.SetFinalizers(stored.GetFinalizers())
		written.SetOwnerReferences(stored.GetOwnerReferences())
		maps.Copy(labels, stored.GetLabels())
		maps.Copy(annotations, stored.GetAnnotations())
		delete(annotations, api.AnnotationSuspend)
	}
	maps.Copy(labels, policy.GetLabels())
	own := policy.GetAnnotations()
	// The policy may be a copy of one that is stored.
	for _, name := range []string{proof.Annotation, lastApplied} {
		delete(own, name)
	}
	maps.Copy(annotations, own)
	written.SetLabels(labels)
	written.SetAnnotations(annotations)
	return written
}

// lastApplied holds what kubectl has applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// admit returns why policy admission would refuse a change, if Usher is there to be asked or not.
func (w *change) admit(ctx context.Context, warnings rest.WarningHandlerWithContext) error {
	if w.next == nil {
		return nil
	}
	return policies.Admit(ctx, warnings, w.next, w.stored)
}

// try asks API servers whether they would accept a change, and finds out what would be stored.
func (w *change) try(ctx context.Context) error {
	result, err := w.send(ctx, []string{metav1.DryRunAll})
	if err != nil || w.next == nil {
		return err
	}
	before := map[string]any{}
	if w.stored != nil {
		before = described(w.stored)
	}
	if w.diff, err = yamldiff.Of(before, described(result)); err == nil && w.stored == nil {
		text, encodeErr := printable.YAML(described(result))
		w.diff, err = string(text), encodeErr
	}
	return err
}

// described returns the parts of a policy that its writer decides about.
func described(policy *unstructured.Unstructured) map[string]any {
	parts := maps.Clone(policy.Object)
	delete(parts, "status")
	metadata := map[string]any{}
	if labels := policy.GetLabels(); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations := policy.GetAnnotations()
	for _, name := range []string{proof.Annotation, lastApplied, api.AnnotationSuspended} {
		delete(annotations, name)
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if parts["metadata"] = metadata; len(metadata) == 0 {
		delete(parts, "metadata")
	}
	return parts
}

// show prints what a change makes of the policy.
func (w *change) show(out io.Writer) error {
	what := "changes"
	switch {
	case w.next == nil:
		what = "is deleted"
	case w.stored == nil:
		what = "is new"
	case w.diff == "":
		what = "stays as it is"
	}
	if _, err := fmt.Fprintf(out, "%s %s\n", w.ref, what); err != nil {
		return err
	}
	for line := range strings.Lines(w.diff) {
		if _, err := fmt.Fprintf(out, "  %s\n", strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// digest identifies what changes make of which policies. It is long enough that who writes a candidate finds no two
// that have the same.
func digest(changes []change) string {
	sum := sha256.New()
	for i := range changes {
		w := &changes[i]
		fmt.Fprintf(sum, "%q %t %q", w.ref, w.next == nil, w.diff)
		if w.stored != nil {
			fmt.Fprintf(sum, " of %q %d", w.stored.GetUID(), w.stored.GetGeneration())
		}
		fmt.Fprintln(sum)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// write makes a change, unless somebody else has changed the policy since it was read, and says what it
// did. The status of the policy may change.
func (w *change) write(ctx context.Context) (string, error) {
	done := "applied"
	switch {
	case w.next == nil:
		done = "deleted"
	case w.stored != nil && w.diff == "":
		return "unchanged", nil
	}
	for range maxWrites {
		_, err := w.send(ctx, nil)
		switch {
		case err == nil:
			return done, nil
		case w.stored == nil && apierrors.IsAlreadyExists(err):
			return "", errChanged
		case w.stored == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return "", err
		}
		found, err := get(ctx, w.client, w.ref)
		switch {
		case err != nil:
			return "", err
		case found == nil || !cluster.Same(found, w.stored):
			return "", errChanged
		}
		w.stored = found
		if w.next != nil {
			w.next.SetResourceVersion(found.GetResourceVersion())
		}
	}
	return "", errChanged
}

// send sends a change to the API server, and returns what is stored then.
func (w *change) send(ctx context.Context, dryRun []string) (*unstructured.Unstructured, error) {
	ctx = cluster.Writes(ctx, w.ref.Name)
	switch {
	case w.next == nil:
		o := only(w.stored)
		o.DryRun = dryRun
		return nil, w.client.Delete(ctx, w.ref.Name, o)
	case w.stored == nil:
		return w.client.Create(ctx, w.next, metav1.CreateOptions{FieldManager: FieldManager, DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	}
	return w.client.Update(ctx, w.next, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
}

// only returns the options of a deletion of this version of an object.
func only(object *unstructured.Unstructured) metav1.DeleteOptions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// get returns a policy of a cluster, nil if there is none.
func get(ctx context.Context, client dynamic.ResourceInterface, ref usher.PolicyRef) (*unstructured.Unstructured, error) {
	found, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case cluster.Unserved(err):
		return nil, fmt.Errorf("the cluster does not know the kind %s: %w", ref.Kind, err)
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no policy
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", ref, err)
	}
	return found, nil
}
