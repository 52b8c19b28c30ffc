package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/internal/audit/resources"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/impact"
)

// An unreadKind is a kind whose objects could not be read, although a policy that differs is for them.
type unreadKind struct {
	Resource string `json:"resource"`
	Why      string `json:"why"`
}

// A version is a kind to read, and the policies that are compared on its objects: of a resource that is served in
// several versions each policy sees the objects in the first one that it is for.
type version struct {
	result.Kind

	policies []usher.PolicyRef
}

// readCluster calls use for the objects that exist, kind by kind. What cannot be read is in the report.
func (c *comparing) readCluster(ctx context.Context, use func(item) error) error {
	lists, failed, err := existing.Discover(c.from.Kube.Discovery())
	if err != nil {
		return err
	}
	for gv, why := range failed {
		c.unread = append(c.unread, unreadKind{gv.String(), why.Error()})
	}
	for _, v := range c.versions(lists) {
		name := v.Resource.GroupResource().String()
		c.existing.Store(&name)
		err := existing.Pages(ctx, c.from.Facts.Resource(v.Resource).Namespace(c.namespace), func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				if err := use(item{Subject: v.subject(page.Items[i].Object)}); err != nil {
					return stopError{err}
				}
			}
			return nil
		})
		stop, stopped := errors.AsType[stopError](err)
		switch {
		case stopped:
			return stop.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.unread = append(c.unread, unreadKind{name, err.Error()})
		}
	}
	return nil
}

// A stopError is an error of those who use objects, not of reading them.
type stopError struct{ error }

// versions returns the kinds to read, sorted.
func (c *comparing) versions(lists []*metav1.APIResourceList) []version {
	var all []version
	home := map[schema.GroupResource]map[usher.PolicyRef]bool{}
	resources.Each(lists, func(k result.Kind, r *metav1.APIResource) {
		if c.namespace != "" && !k.Namespaced {
			return
		}
		name := k.Resource.GroupResource()
		refs := slices.DeleteFunc(c.workers[0].Concerning(k), func(ref usher.PolicyRef) bool { return home[name][ref] })
		switch err := resources.Unoffered(r, "list"); {
		case len(refs) == 0, err != nil && !resources.Stored(r):
			return
		case err != nil:
			c.unread = append(c.unread, unreadKind{name.String(), err.Error()})
			return
		}
		if home[name] == nil {
			home[name] = map[usher.PolicyRef]bool{}
		}
		for _, ref := range refs {
			home[name][ref] = true
		}
		all = append(all, version{k, refs})
	})
	return all
}

// subject returns an object as if it was created, and as if it was updated without a change.
func (v *version) subject(object map[string]any) *impact.Subject {
	metadata, _ := object["metadata"].(map[string]any)
	created, bare := maps.Clone(object), maps.Clone(metadata)
	// A creation has none of what API servers set afterwards.
	delete(created, "status")
	for _, field := range []string{"resourceVersion", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		delete(bare, field)
	}
	created["metadata"] = bare
	s := &impact.Subject{Request: writing(v.Kind, usher.Create, created), Again: writing(v.Kind, usher.Update, object), Only: v.policies, Unknown: impact.Unknowns{User: noUser}}
	s.Again.OldObject = s.Again.Object
	s.From = fmt.Sprintf("%s %s", v.Kind.Kind, s.Request.Name)
	if s.Request.Namespace != "" && v.Namespaced {
		s.From = fmt.Sprintf("%s %s/%s", v.Kind.Kind, s.Request.Namespace, s.Request.Name)
	}
	return s
}
