package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// A Cluster is what an API server needs in addition to a request: webhook configurations, admission
// policies with their bindings and parameters, namespaces, custom kinds, and the existing objects.
// It is safe for concurrent use.
type Cluster struct {
	endpoints  endpoints
	custom     customKinds
	config     *rest.Config
	authorizer authorizer.Authorizer
}

// FromObjects returns the cluster that consists of these objects, of the namespaces that
// every cluster has, and of the kinds that a kube-apiserver 1.36 serves by default.
func FromObjects(objects []map[string]any) (*Cluster, error) {
	c := &Cluster{endpoints: builtInEndpoints(), custom: customKinds{}}
	var faults []error
	for _, tree := range objects {
		if kindOfTree(tree).GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			continue
		}
		if err := c.addCustomKind(tree); err != nil {
			faults = append(faults, err)
		}
	}
	memory := newMemory(c.endpoints)
	for _, tree := range objects {
		stored, err := asStored(tree)
		if err == nil {
			err = memory.add(stored)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", kindText(kindOfTree(tree)), authz.NameOf(tree), err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	memory.addNamespaces()
	c.config = &rest.Config{Host: "http://cluster.invalid", Transport: memory, QPS: -1}
	var err error
	if c.authorizer, err = newOffline(objects); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) addCustomKind(tree map[string]any) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, crd); err != nil {
		return fmt.Errorf("decode CustomResourceDefinition %s: %w", authz.NameOf(tree), err)
	}
	c.endpoints = append(c.endpoints, customEndpoints(crd)...)
	return c.custom.add(crd)
}

// FromServer returns the cluster of an API server, which is only read: it sends only GET requests,
// and access reviews for conditions that need them.
func FromServer(ctx context.Context, config *rest.Config) (*Cluster, error) {
	live := rest.CopyConfig(config)
	live.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	client, err := discovery.NewDiscoveryClientForConfig(live)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	if err := lacking(ctx, client.RESTClient()); err != nil {
		return nil, err
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	c := &Cluster{config: live, custom: customKinds{}}
	// Of versions that a webhook may get, API servers take the first one.
	for _, list := range kind.InOrder(groups, lists) {
		c.endpoints = append(c.endpoints, discovered(list)...)
	}
	if err := c.readCustomKinds(ctx, client.RESTClient()); err != nil {
		return nil, err
	}
	c.authorizer, err = newReviews(live)
	return c, err
}

// read are what is read of a cluster, at their paths.
func read() map[string]string {
	paths := map[string]string{
		"namespaces": "/api/v1/namespaces", "customresourcedefinitions.apiextensions.k8s.io": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	}
	for _, name := range []string{
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	} {
		paths[name+"."+admissionv1.GroupName] = "/apis/" + admissionv1.SchemeGroupVersion.String() + "/" + name
	}
	return paths
}

// lacking returns which rights are missing to read a cluster. Informers would wait for what never comes.
func lacking(ctx context.Context, client rest.Interface) error {
	paths := read()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if err := client.Get().AbsPath(paths[name]).Param("limit", "1").Do(ctx).Error(); apierrors.IsForbidden(err) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("read cluster: you may not list %s, which say what is asked about a request: have an administrator grant the verbs get, list and watch on them; "+
		"'kubectl auth can-i list %s' says whether you have one", strings.Join(names, ", "), names[0])
}

// Config leads to the cluster, for reading.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Mapper maps the kinds and resources of the cluster.
func (c *Cluster) Mapper() meta.RESTMapper { return c.endpoints.mapper() }

// Access decides requests to authorize as the API server of the cluster does: by its roles and
// bindings alone, if it is made of files.
func (c *Cluster) Access() usher.Decider { return apiserver.Ask(c.authorizer) }

// object is the one that a request is about.
func (c *Cluster) object(p *prepared) (map[string]any, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	namespace := p.namespace
	if !p.namespaced {
		namespace = ""
	}
	found, err := client.Resource(p.resource).Namespace(namespace).Get(context.Background(), p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s of an object that the cluster does not have: give it as it was, or add it to the cluster", p.operation)
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return found.Object, nil
}

// readCustomKinds reads the schemas of custom resources; their endpoints are known.
func (c *Cluster) readCustomKinds(ctx context.Context, client rest.Interface) error {
	raw, err := client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read CustomResourceDefinitions: %w", err)
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := json.Unmarshal(raw, list); err != nil {
		return fmt.Errorf("read CustomResourceDefinitions: %w", err)
	}
	for i := range list.Items {
		if err := c.custom.add(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func discovered(list *metav1.APIResourceList) endpoints {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil
	}
	var all endpoints
	for i := range list.APIResources {
		r := &list.APIResources[i]
		name, sub, _ := strings.Cut(r.Name, "/")
		kind := gv.WithKind(r.Kind)
		// Both are empty if they are those of the resource; the core group is empty, too.
		if r.Version != "" {
			kind.Group, kind.Version = r.Group, r.Version
		}
		all = append(all, endpoint{
			resource: gv.WithResource(name), subresource: sub, kind: kind, namespaced: r.Namespaced, verbs: r.Verbs,
		})
	}
	return all
}

// readOnly refuses to change anything.
type readOnly struct{ next http.RoundTripper }

func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	review := request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/subjectaccessreviews")
	if request.Method != http.MethodGet && !review {
		return nil, fmt.Errorf("%s %s refused: the cluster is only read", request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}

func kindOfTree(tree map[string]any) schema.GroupVersionKind {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// asStored returns an object as an API server would return it: kinds that affect admission in their
// newest version, with the defaults that a server sets on write. The error is why a server would
// reject it.
func asStored(tree map[string]any) (map[string]any, error) {
	kind := kindOfTree(tree)
	if kind.Group != admissionv1.GroupName {
		return tree, nil
	}
	kind.Version = "v1"
	current := runtime.DeepCopyJSON(tree)
	current["apiVersion"] = kind.GroupVersion().String()
	object, unknown, err := decodeObject(current, kind)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	setDefaults(object)
	if err := validate(object); err != nil {
		return nil, err
	}
	return treeOf(object)
}
