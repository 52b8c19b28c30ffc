package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
)

// A Forbidden is a kind of policy that the user may not read.
type Forbidden struct {
	Kind api.Kind
	Err  error
}

// Without returns err, and which policies are missing because the user may not read them, with what to do.
// It returns err if there are none.
func Without(forbidden []Forbidden, err error) error {
	if len(forbidden) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s: name policies with -p, or have an administrator grant you the verb list on these kinds (docs/explain.md#rights has the ClusterRole)", err, NoRight(forbidden))
}

// NoRight says which policies the user may not read: the names of a few kinds, or how many there are in each
// API group. The number of kinds of policies is that of [MayRefuse]; exemptions and policies that authorize are counted
// apart.
func NoRight(forbidden []Forbidden) string {
	const few = 4
	var names, groups []string
	kinds := map[string]int{}
	exempt, authorize := 0, 0
	for _, f := range forbidden {
		r := f.Kind.GroupVersionResource().GroupResource()
		names = append(names, r.String())
		if kinds[r.Group]++; kinds[r.Group] == 1 {
			groups = append(groups, r.Group)
		}
		switch {
		case f.Kind.Exempts:
			exempt++
		case f.Kind.Authorizes:
			authorize++
		}
	}
	if len(names) <= few {
		return "you may not list " + strings.Join(names, ", ")
	}
	counts := []string{cli.Count(len(names)-exempt-authorize, "kind", "kinds") + " of policies"}
	if exempt > 0 {
		counts = append(counts, fmt.Sprintf("%d of exemptions", exempt))
	}
	if authorize > 0 {
		counts = append(counts, fmt.Sprintf("%d of authorization policies", authorize))
	}
	for i, group := range groups {
		groups[i] = fmt.Sprintf("%d of %s", kinds[group], group)
	}
	return fmt.Sprintf("you may not list %s: %s", strings.Join(counts, ", "), strings.Join(groups, ", "))
}

// MayRefuse returns the resources of the kinds whose policies may refuse what those decide that were read.
func MayRefuse(forbidden []Forbidden) []string {
	var all []string
	for _, f := range forbidden {
		if !f.Kind.Authorizes && !f.Kind.Exempts {
			all = append(all, f.Kind.GroupVersionResource().GroupResource().String())
		}
	}
	return all
}

// Unread says that no policy refuses a request, but that there are kinds of policies that could not be read;
// it is empty if there are none.
func Unread(leftOut []string) string {
	if len(leftOut) == 0 {
		return ""
	}
	return fmt.Sprintf("no policy that you may read refuses it; %s of policies could not be read", cli.Count(len(leftOut), "kind", "kinds"))
}

// FromCluster returns the policies of all kinds that a cluster has for a namespace, also Kubernetes' own,
// which its API server enforces: those of the cluster, and those in the namespace, or in all if it is
// empty. Kinds that are not served have none. It returns the kinds that the user may not read, and
// prints to s.Err which policies cannot be decoded. Their proofs are what their status says.
func FromCluster(cmd *cobra.Command, s cli.Streams, client dynamic.Interface, namespace string) ([]api.Policy, []Forbidden, error) {
	return fromKinds(deciding(), func(versions []api.Kind) ([]api.Policy, error) { return listFirst(cmd, s, client, versions, namespace) })
}

// Readable is FromCluster for all namespaces. Of kinds that the user may not read in all, it returns those in the
// namespaces that the question is about: policies of others do not change the answer. Kinds that only authorize
// do not either, and are not among those that the user may not read.
func Readable(cmd *cobra.Command, s cli.Streams, client dynamic.Interface, namespaces ...string) ([]api.Policy, []Forbidden, error) {
	all, forbidden, err := readable(cmd, s, client, namespaces, deciding())
	return all, OfWrites(forbidden), err
}

// OfWrites returns the kinds whose policies decide writes, and exemptions from these.
func OfWrites(forbidden []Forbidden) []Forbidden {
	return slices.DeleteFunc(forbidden, func(f Forbidden) bool { return f.Kind.Authorizes })
}

// Exemptions returns those that Readable returns, and prints to s.Err which kinds of them the user may not read.
func Exemptions(cmd *cobra.Command, s cli.Streams, client dynamic.Interface, namespace string) ([]api.Policy, error) {
	kinds := slices.DeleteFunc(deciding(), func(versions []api.Kind) bool { return !versions[0].Exempts })
	all, forbidden, err := readable(cmd, s, client, []string{namespace}, kinds)
	if err == nil && len(forbidden) > 0 {
		cli.Notef(cmd, s, "warning", "%s: these are left out", NoRight(forbidden))
	}
	return all, err
}

func readable(cmd *cobra.Command, s cli.Streams, client dynamic.Interface, namespaces []string, kinds [][]api.Kind) ([]api.Policy, []Forbidden, error) {
	return fromKinds(kinds, func(versions []api.Kind) ([]api.Policy, error) {
		found, err := listFirst(cmd, s, client, versions, "")
		if !apierrors.IsForbidden(err) || !versions[0].Namespaced || len(namespaces) == 0 || slices.Contains(namespaces, "") {
			return found, err
		}
		for _, namespace := range namespaces {
			some, err := listFirst(cmd, s, client, versions, namespace)
			if found = append(found, some...); err != nil {
				return found, err
			}
		}
		return found, nil
	})
}

// deciding are the kinds of policies that decide something, each with its versions.
func deciding() [][]api.Kind {
	kinds := api.ForeignKinds()
	for _, kind := range api.Kinds() {
		if !kind.Candidate {
			kinds = append(kinds, []api.Kind{kind})
		}
	}
	return kinds
}

func fromKinds(kinds [][]api.Kind, list func(versions []api.Kind) ([]api.Policy, error)) ([]api.Policy, []Forbidden, error) {
	var all []api.Policy
	var forbidden []Forbidden
	for _, versions := range kinds {
		found, err := list(versions)
		switch {
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, Forbidden{versions[0], err})
		case err != nil:
			return nil, nil, fmt.Errorf("list policies of kind %s: %w", versions[0].Kind, err)
		}
		all = append(all, found...)
	}
	return all, forbidden, nil
}

// listFirst lists a kind in the first of its versions that is served.
func listFirst(cmd *cobra.Command, s cli.Streams, client dynamic.Interface, versions []api.Kind, namespace string) ([]api.Policy, error) {
	for i := range versions {
		var all []api.Policy
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			resource := client.Resource(versions[i].GroupVersionResource())
			if versions[i].Namespaced && namespace != "" {
				return resource.Namespace(namespace).List(ctx, o)
			}
			return resource.List(ctx, o)
		}
		err := pager.New(list).EachListItem(cmd.Context(), metav1.ListOptions{}, func(item runtime.Object) error {
			text, err := json.Marshal(item)
			if err != nil {
				return err
			}
			policy, err := api.Decode(text)
			if err != nil {
				cli.Notef(cmd, s, "warning", "left out: %v", err)
				return nil
			}
			if object, ok := item.(*unstructured.Unstructured); ok && versions[i].NeedsProof {
				policy.Proof = cluster.ProofOf(object)
			}
			all = append(all, policy)
			return nil
		})
		if !apierrors.IsNotFound(err) {
			return all, err
		}
	}
	return nil, nil
}

// Elsewhere returns the set in which policies that a cluster stores, of kinds that its API servers
// enforce, are theirs.
func (p Set) Elsewhere(stored []api.Policy) Set {
	theirs := map[usher.PolicyRef]bool{}
	for i := range stored {
		if kind, ok := api.KindOf(stored[i].Object); ok && kind.Foreign {
			theirs[compile.Ref(stored[i].Object)] = true
		}
	}
	return setOf(p.compiler, slices.Clone(p.compiled), theirs)
}

// Replaced returns the set with the policies in files, also in place of those with the same name.
func (p Set) Replaced(cmd *cobra.Command, s cli.Streams, paths []string) (Set, error) {
	files, err := p.After(cmd, s, paths)
	if err != nil {
		return Set{}, err
	}
	return p.Replacing(files), nil
}

// ErrNone means that there is no policy, neither in files nor among those of a cluster that the user may list.
var ErrNone = errors.New("no policies: the cluster has none that you may list, and -p names none")

// UsableWith is [Usable] for the policies in files together with those of a cluster, which come
// after them: of two with one name that in the file counts. Policies of the cluster that do not
// compile are left out, with a note; those that are not proven decide nothing.
func UsableWith(cmd *cobra.Command, s cli.Streams, paths []string, stored []api.Policy, flags *Limits) (Set, error) {
	compiler, err := flags.Compiler()
	if err != nil {
		return Set{}, err
	}
	var set source.Set
	if len(paths) > 0 {
		if set, err = ReadSome(cmd, s, paths); err != nil {
			return Set{}, err
		}
	}
	all, err := compiler.All(cmd.Context(), set.Policies)
	if err != nil {
		return Set{}, err
	}
	if errs := rule.Errors(bounded.Problems(set, all)); len(errs) > 0 {
		return Set{}, invalid(cmd, s, errs)
	}
	all, read, err := inForce(all)
	if err != nil {
		return Set{}, err
	}
	read.note(cmd, s)
	known := map[usher.PolicyRef]bool{}
	if read.inForce {
		known = read.replaced
	}
	for i := range all {
		known[all[i].Ref] = true
	}
	for _, policy := range stored {
		ref := compile.Ref(policy.Object)
		if known[ref] {
			continue
		}
		if policy.Proof.State == api.Unproven {
			all = append(all, compile.Compiled{Policy: policy, Ref: ref})
			continue
		}
		compiled, err := compiler.Policy(cmd.Context(), policy)
		if err != nil {
			return Set{}, err
		}
		if errs := rule.Errors(compiled.Problems); len(errs) > 0 {
			cli.Notef(cmd, s, "warning", "%s is left out, since it does not compile: %s", ref, errs[0].Text())
			continue
		}
		all = append(all, compiled)
	}
	switch {
	case len(all) > 0:
	case len(stored) > 0:
		return Set{}, errors.New("none of the policies of the cluster compiles")
	default:
		return Set{}, ErrNone
	}
	return setOf(compiler, all, nil), nil
}
