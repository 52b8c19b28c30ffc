package simulate

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed resources.txt
var builtIn string

// An endpoint is a resource, or a subresource, that an API server serves.
type endpoint struct {
	resource    schema.GroupVersionResource
	subresource string
	kind        schema.GroupVersionKind
	namespaced  bool
	verbs       []string
}

// endpoints are those of one API server.
type endpoints []endpoint

// builtInEndpoints are those of an API server that nobody has added anything to.
func builtInEndpoints() endpoints {
	var all endpoints
	for line := range strings.Lines(builtIn) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		gv, _ := schema.ParseGroupVersion(fields[0])
		kind, _ := schema.ParseGroupVersion(fields[2])
		name, sub, _ := strings.Cut(fields[1], "/")
		all = append(all, endpoint{
			resource: gv.WithResource(name), subresource: sub, kind: kind.WithKind(fields[3]),
			namespaced: fields[4] == "namespaced", verbs: strings.Split(fields[5], ","),
		})
	}
	return all
}

// customEndpoints are those that a CustomResourceDefinition adds.
func customEndpoints(crd *apiextensionsv1.CustomResourceDefinition) endpoints {
	var all endpoints
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if !version.Served {
			continue
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
		e := endpoint{
			resource:   gv.WithResource(crd.Spec.Names.Plural),
			kind:       gv.WithKind(crd.Spec.Names.Kind),
			namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
			verbs:      []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		all = append(all, e)
		if version.Subresources == nil {
			continue
		}
		e.verbs = []string{"get", "patch", "update"}
		if version.Subresources.Status != nil {
			e.subresource = "status"
			all = append(all, e)
		}
		if version.Subresources.Scale != nil {
			e.subresource, e.kind = "scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
			all = append(all, e)
		}
	}
	return all
}

// find returns the endpoint that objects of a kind are sent to. The resource, if it is not
// empty, tells those apart that take the same kind: a Scale is sent to deployments and to
// others.
func (all endpoints) find(kind schema.GroupVersionKind, resource, subresource string) (endpoint, error) {
	var found []endpoint
	for _, e := range all {
		if e.kind == kind && (subresource == "" || e.subresource == subresource) && (resource == "" || e.names(resource)) {
			found = append(found, e)
		}
	}
	// Without a word about subresources the object itself is meant.
	whole := slices.DeleteFunc(slices.Clone(found), func(e endpoint) bool { return e.subresource != "" })
	switch {
	case subresource == "" && len(whole) == 1:
		return whole[0], nil
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return endpoint{}, fmt.Errorf("%s can be sent to %s: say which resource", kindText(kind), places(found))
	case subresource != "":
		return endpoint{}, fmt.Errorf("the API server has no subresource %q that takes %s", subresource, kindText(kind))
	}
	return endpoint{}, fmt.Errorf("the API server does not know %s: add its CustomResourceDefinition to the cluster, if there is one", kindText(kind))
}

// names reports whether somebody who says deployments or deployments.apps means e.
func (e *endpoint) names(resource string) bool {
	return resource == e.resource.Resource || resource == e.resource.GroupResource().String()
}

// stored reports whether objects are kept. Reviews are only answered: they need no name.
func (e *endpoint) stored() bool { return slices.Contains(e.verbs, "get") }

func (e *endpoint) String() string {
	text := e.resource.GroupResource().String()
	if e.subresource != "" {
		text += "/" + e.subresource
	}
	return text
}

func places(all []endpoint) string {
	words := make([]string, len(all))
	for i := range all {
		words[i] = all[i].String()
	}
	return strings.Join(words, ", ")
}

func kindText(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}

// mapper finds resources of kinds.
func (all endpoints) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, e := range all {
		if e.subresource != "" {
			continue
		}
		scope := meta.RESTScopeRoot
		if e.namespaced {
			scope = meta.RESTScopeNamespace
		}
		singular := e.resource.GroupVersion().WithResource(strings.ToLower(e.kind.Kind))
		mapper.AddSpecific(e.kind, e.resource, singular, scope)
	}
	return mapper
}

// equivalents tells which resources are the same ones in other versions.
func (all endpoints) equivalents() runtime.EquivalentResourceMapper {
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(func(resource schema.GroupResource) string {
		if resource.Resource == "events" && resource.Group == "events.k8s.io" {
			// Stored together with those of the core group.
			resource.Group = ""
		}
		return resource.String()
	})
	for _, e := range all {
		registry.RegisterKindFor(e.resource, e.subresource, e.kind)
	}
	return registry
}
