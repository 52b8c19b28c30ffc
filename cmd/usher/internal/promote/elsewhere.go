package promote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
)

// mostNamed limits the namespaces that are named.
const mostNamed = 3

// notFound returns the error of a candidate that cannot be read, with the lines that promote others of its name.
func notFound(ctx context.Context, client dynamic.Interface, ref usher.PolicyRef, o *Options, err error) error {
	err = fmt.Errorf("get %s: %w", ref, err)
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return err
	}
	var lines []string
	for _, other := range named(ctx, client, ref, o.Home) {
		line := "usher promote " + other.Name + " -n " + other.Namespace
		if other.Namespace == "" {
			line = "usher promote " + other.Name
		}
		if line += o.Flags; o.Apply {
			line += " --apply"
		}
		lines = append(lines, "'"+line+"'")
	}
	switch more := len(lines) - mostNamed; {
	case len(lines) == 0:
		return err
	case more > 0:
		lines = append(lines[:mostNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("%w; there is another candidate of this name: %s", err, strings.Join(lines, " or "))
}

// named returns the other candidates of the name of ref that the user may read, the one in the namespace home
// first. What cannot be found out is left out.
func named(ctx context.Context, client dynamic.Interface, ref usher.PolicyRef, home string) []usher.PolicyRef {
	var all []usher.PolicyRef
	add := func(kind *api.Kind, namespace string) {
		if other := (usher.PolicyRef{Kind: kind.Kind, Namespace: namespace, Name: ref.Name}); other != ref && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	kinds := api.Kinds()
	for i := range kinds {
		kind := &kinds[i]
		if !kind.Candidate {
			continue
		}
		if _, err := cluster.Policies(client, kind, home).Get(ctx, ref.Name, metav1.GetOptions{}); err == nil {
			namespace := home
			if !kind.Namespaced {
				namespace = ""
			}
			add(kind, namespace)
		}
		if !kind.Namespaced {
			continue
		}
		found, err := client.Resource(kind.GroupVersionResource()).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + ref.Name})
		if err != nil {
			continue
		}
		for j := range found.Items {
			if found.Items[j].GetName() == ref.Name {
				add(kind, found.Items[j].GetNamespace())
			}
		}
	}
	return all
}
