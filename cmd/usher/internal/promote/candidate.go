package promote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
)

// countsEvery is how often servers write what a candidate has counted, at most.
const countsEvery = time.Minute

// A candidate is one of a cluster.
type candidate struct {
	client     dynamic.Interface
	kind       api.Kind
	ref        usher.PolicyRef
	uid        types.UID
	generation int64
	spec       usherv1alpha1.PolicyCandidateSpec
	status     usherv1alpha1.PolicyCandidateStatus
	// flags name the cluster in commands that are printed.
	flags string
}

func read(ctx context.Context, client dynamic.Interface, ref usher.PolicyRef, o *Options) (*candidate, error) {
	c := &candidate{client: client, ref: ref, flags: o.Flags}
	c.kind, _ = api.KindCalled(ref.Kind)
	found, err := c.resource().Get(ctx, ref.Name, metav1.GetOptions{})
	if cluster.Unserved(err) {
		return nil, fmt.Errorf("the cluster does not know the kind %s: install or upgrade Usher first", ref.Kind)
	}
	if err != nil {
		return nil, notFound(ctx, client, ref, o, err)
	}
	// Both kinds have the same fields.
	var typed usherv1alpha1.PolicyCandidate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &typed); err != nil {
		return nil, fmt.Errorf("decode %s: %w", ref, err)
	}
	c.uid, c.generation, c.spec, c.status = typed.UID, typed.Generation, typed.Spec, typed.Status
	return c, nil
}

func (c *candidate) resource() dynamic.ResourceInterface {
	return cluster.Policies(c.client, &c.kind, c.ref.Namespace)
}

// counted prints what a candidate has counted.
func (c *candidate) counted(out io.Writer) {
	s := &c.status
	if s.Since == nil {
		fmt.Fprintf(out, "%s: nothing is counted yet\n", c.ref)
		return
	}
	fmt.Fprintf(out, "%s: counted since %s", c.ref, s.Since.UTC().Format(time.RFC3339))
	if s.CountedAt != nil {
		fmt.Fprintf(out, " (as of %s: changes are written at most once a minute)", s.CountedAt.UTC().Format(time.RFC3339))
	}
	fmt.Fprintln(out)
	if s.Restarted != "" {
		fmt.Fprintf(out, "         counting began again then: %s\n", printable.Line(s.Restarted))
	}
	for _, row := range []struct {
		n    int64
		what string
	}{
		{s.Seen, "decisions seen"},
		{s.Skipped, "decisions skipped"},
		{s.NewlyDenied, "newly denied"},
		{s.NewlyAllowed, "newly allowed"},
		{s.Warned, "answered with other warnings"},
		{s.Changed, "changed otherwise"},
		{s.Errors, "errors"},
	} {
		fmt.Fprintf(out, "%8d %s\n", row.n, row.what)
	}
	if s.NoOpinion > 0 {
		fmt.Fprintf(out, "%8d left to other authorizers\n", s.NoOpinion)
	}
	if s.NewlyDenied > 0 {
		fmt.Fprintf(out, "         show the denied ones, and how to exempt them: %s\n", c.shown())
	}
	if s.Seen == 0 {
		fmt.Fprintln(out, "it has seen no request, which proves nothing: what it would do is not known")
	}
}

// shown returns the command that shows what would be newly denied.
func (c *candidate) shown() string {
	return "usher watch --candidates --denied --explain --once --policy " + served.Policy(c.ref) + served.In(c.ref.Namespace) + c.flags
}

// reasons returns why a candidate is not promoted.
func (c *candidate) reasons(ctx context.Context, changes []change, notes io.Writer) ([]string, error) {
	var all []string
	evaluated := meta.FindStatusCondition(c.status.Conditions, usherv1alpha1.ConditionEvaluated)
	holds := false
	switch {
	case evaluated == nil || evaluated.ObservedGeneration != c.generation || c.status.ObservedGeneration != c.generation:
		all = append(all, "it is not evaluated yet, or not as it is now")
	case evaluated.Status != metav1.ConditionTrue:
		all = append(all, "it is not evaluated: "+evaluated.Message)
	default:
		holds = true
	}
	if proven := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionProven); proven != nil && proven.Status != metav1.ConditionTrue {
		all = append(all, "its writer is not known to have had the right to write it, and you would answer for what it embeds: "+proven.Message)
	}
	for _, p := range c.status.Problems {
		if p.Severity == "error" {
			all = append(all, p.What)
		}
	}
	if c.status.Errors > 0 {
		all = append(all, fmt.Sprintf("%d of its evaluations have failed", c.status.Errors))
	}
	if !holds {
		return all, nil
	}
	if begun := c.status.Since; begun != nil && c.status.Seen == 0 && c.status.Skipped == 0 && time.Since(begun.Time) < countsEvery {
		all = append(all, fmt.Sprintf("there are no numbers yet: counting began at %s, and Usher writes what it has counted at most once a minute; try again after %s",
			begun.UTC().Format(time.RFC3339), begun.Add(countsEvery).UTC().Format(time.RFC3339)))
	}
	moved, err := c.moved(ctx, changes, notes)
	return append(all, moved...), err
}

// moved returns which policies have changed since the candidate was compared with them.
func (c *candidate) moved(ctx context.Context, changes []change, notes io.Writer) ([]string, error) {
	var all []string
	known := map[usher.PolicyRef]bool{}
	for i := range c.status.Compared {
		v := &c.status.Compared[i]
		ref := usher.PolicyRef{Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}
		known[ref] = true
		if v.UID == "" {
			all = append(all, fmt.Sprintf("%s, with which it was compared, comes from a file, which stays in force", ref))
			continue
		}
		var stored *unstructured.Unstructured
		if j := slices.IndexFunc(changes, func(w change) bool { return w.ref == ref }); j >= 0 {
			stored = changes[j].stored
		} else {
			var err error
			_, stored, err = c.find(ctx, ref)
			if apierrors.IsForbidden(err) {
				fmt.Fprintf(notes, "note: cannot tell whether %s has changed: %v\n", ref, err)
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		switch {
		case stored == nil:
			all = append(all, fmt.Sprintf("%s was deleted since the candidate was compared with it", ref))
		case stored.GetUID() != v.UID || stored.GetGeneration() != v.Generation:
			all = append(all, fmt.Sprintf("%s has changed since the candidate was compared with it: counting begins again", ref))
		}
	}
	for i := range changes {
		if changes[i].stored != nil && !known[changes[i].ref] {
			all = append(all, fmt.Sprintf("%s exists, and is not among the policies that the candidate was compared with", changes[i].ref))
		}
	}
	return all, nil
}

// find returns a policy of the cluster, nil if there is none, and the version of its kind.
func (c *candidate) find(ctx context.Context, ref usher.PolicyRef) (kind api.Kind, stored *unstructured.Unstructured, err error) {
	kind, ok := api.KindCalled(ref.Kind)
	if !ok {
		return kind, nil, fmt.Errorf("%s is not of a kind of policies", ref)
	}
	versions := []api.Kind{kind}
	for _, foreign := range api.ForeignKinds() {
		if foreign[0].GroupKind() == kind.GroupKind() {
			versions = foreign
		}
	}
	for _, version := range versions {
		kind = version
		if stored, err = get(ctx, cluster.Policies(c.client, &kind, ref.Namespace), ref); !cluster.Unserved(err) {
			break
		}
	}
	return kind, stored, err
}

// plan returns what promotes a candidate.
func (c *candidate) plan(ctx context.Context) ([]change, error) {
	if c.spec.Remove {
		if c.spec.Replaces == nil {
			return nil, errors.New("it names no policy to remove")
		}
		ref, problem := compile.Replaces(c.ref, c.spec.Replaces)
		if problem.What != "" {
			return nil, errors.New("spec.replaces: " + problem.What)
		}
		kind, stored, err := c.find(ctx, ref)
		switch {
		case err != nil:
			return nil, err
		case stored == nil:
			return nil, fmt.Errorf("there is no %s to remove: delete the candidate with '%s'", ref, c.deletion())
		}
		return []change{{client: cluster.Policies(c.client, &kind, ref.Namespace), ref: ref, stored: stored}}, nil
	}
	var changes []change
	for i := range c.spec.Policies {
		w, err := c.embedded(ctx, c.spec.Policies[i].Raw)
		if err != nil {
			return nil, fmt.Errorf("spec.policies[%d]: %w", i, err)
		}
		if slices.ContainsFunc(changes, func(other change) bool { return other.ref == w.ref }) {
			return nil, fmt.Errorf("spec.policies[%d]: %s is there twice", i, w.ref)
		}
		changes = append(changes, w)
	}
	if len(changes) == 0 {
		return nil, errors.New("it embeds no policies")
	}
	return changes, nil
}

// embedded returns the write of an embedded policy. API servers that could not ask Usher have stored
// candidates with anything in them, and who promotes one may have more rights than who wrote it.
func (c *candidate) embedded(ctx context.Context, raw []byte) (change, error) {
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return change{}, fmt.Errorf("decode policy: %w", err)
	}
	policy := &unstructured.Unstructured{Object: object}
	kind, ok := api.KindNamed(policy.GroupVersionKind())
	if !ok {
		return change{}, fmt.Errorf("%s is not a kind of policies that Usher enforces", policy.GroupVersionKind())
	}
	namespace := policy.GetNamespace()
	if kind.Namespaced && namespace == "" {
		namespace = c.ref.Namespace
	}
	if what, _ := compile.Unfit(c.ref, &kind, namespace); what != "" {
		return change{}, errors.New(what)
	}
	ref := usher.PolicyRef{Kind: kind.Kind, Name: policy.GetName()}
	switch {
	case kind.Namespaced && namespace == "":
		return change{}, fmt.Errorf("%s has no namespace", ref)
	case kind.Namespaced:
		ref.Namespace = namespace
	}
	if ref.Name == "" {
		return change{}, errors.New("the policy has no name")
	}
	w := change{client: cluster.Policies(c.client, &kind, ref.Namespace), ref: ref}
	var err error
	if w.stored, err = get(ctx, w.client, ref); err != nil {
		return change{}, err
	}
	w.next = next(policy, ref, w.stored)
	return w, nil
}

// remove deletes a candidate, unless somebody has changed it since it was read. Its status may change.
func (c *candidate) remove(ctx context.Context) error {
	const tries = 5
	var err error
	for range tries {
		found, getErr := c.resource().Get(ctx, c.ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr):
			return nil
		case getErr != nil:
			return getErr
		case found.GetUID() != c.uid || found.GetGeneration() != c.generation:
			return errors.New("somebody has changed it")
		}
		err = c.resource().Delete(ctx, c.ref.Name, only(found))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// deletion returns the command that deletes a candidate.
func (c *candidate) deletion() string {
	command := "kubectl delete " + c.kind.Resource + " " + c.ref.Name
	if c.ref.Namespace != "" {
		command += " -n " + c.ref.Namespace
	}
	return command + c.flags
}
