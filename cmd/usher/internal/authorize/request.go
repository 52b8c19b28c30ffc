package authorize

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	explain "github.com/usher-dev/usher/internal/explain/authz"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	simulate "github.com/usher-dev/usher/internal/simulate/authz"
)

// scopeFlags say for which namespace a question is.
type scopeFlags struct {
	namespace string
	all       bool
	// assumed says that no flag does.
	assumed bool
}

func (f *scopeFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the request (default: that of the kubeconfig's context; without a cluster, all namespaces)")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "ask about a request for all namespaces, whatever -n says")
}

// in returns the namespace to ask about, empty for all of them: as kubectl does, that of the kubeconfig if no flag says
// another.
func (f *scopeFlags) in(world *worldFlags) string {
	f.assumed = !f.all && f.namespace == ""
	switch {
	case f.all:
		f.namespace = ""
	case f.assumed && world.inCluster():
		f.namespace = cluster.NamespaceOf(world.kubeconfig, world.context)
	}
	return f.namespace
}

// tell has the answer say what was assumed.
func (f *scopeFlags) tell(w *World) {
	switch {
	case !f.assumed:
	case f.namespace == "":
		w.note = "asked about all namespaces: -n NAMESPACE is for one, -A says so"
	default:
		w.note = fmt.Sprintf("asked about namespace %s, that of the kubeconfig: -n NAMESPACE is for another, -A for all", f.namespace)
	}
}

// targetFlags describe the request to authorize.
type targetFlags struct {
	scopeFlags

	subresource    string
	labels, fields string
	url            string
}

func (f *targetFlags) register(flags *pflag.FlagSet) {
	f.scopeFlags.register(flags)
	flags.StringVar(&f.subresource, "subresource", "", "subresource of the request, such as exec, log or status")
	flags.StringVarP(&f.labels, "selector", "l", "", "label selector of the request; for list, watch and deletecollection")
	flags.StringVar(&f.fields, "field-selector", "", "field selector of the request; for list, watch and deletecollection")
	flags.StringVar(&f.url, "url", "", "HTTP request to ask about in place of VERB and RESOURCE, as METHOD:PATH, such as 'GET:/api/v1/pods?labelSelector=a%3Db'")
}

// request returns the request to authorize, made by u.
func (f *targetFlags) request(args []string, u usher.User, w *World) (*usher.Request, error) {
	if f.url != "" {
		method, path, ok := strings.Cut(f.url, ":")
		if !ok || len(args) > 0 {
			return nil, errors.New("--url: expected METHOD:PATH, without a verb or resource")
		}
		line, err := simulate.ParseLine(method, path)
		if err != nil {
			return nil, err
		}
		return line.Request(u), nil
	}
	if len(args) != 2 {
		return nil, errors.New("expected a verb and a resource, such as: list secrets, get pods/web, get /metrics")
	}
	r := &usher.Request{Phase: usher.Authorize, User: u, Access: &usher.Access{Verb: args[0]}}
	path := strings.HasPrefix(args[1], "/")
	w.warnVerb(args[0], path)
	if path {
		r.Access.NonResource, r.Access.Path = true, args[1]
		return r, nil
	}
	resource, name, _ := strings.Cut(args[1], "/")
	if of, sub, more := strings.Cut(name, "/"); more {
		return nil, fmt.Errorf("%s: names have no slash; the subresource is a flag: %s/%s --subresource %s", args[1], resource, of, sub)
	}
	r.Resource, r.Name = w.resource(resource), name
	r.Subresource = f.subresource
	if scope := w.scopeOf(r.Resource); !f.assumed || scope != authz.ScopeCluster {
		r.Namespace = f.namespace
		f.tell(w)
	}
	if f.subresource == "" && slices.Contains(subresources, name) {
		w.warnings = append(w.warnings, fmt.Sprintf("%q is taken for a name: the subresource is --subresource %s", name, name))
	}
	if r.Namespace != "" && authz.ScopeOf(r.Resource.Group, r.Resource.Resource) == authz.ScopeCluster && r.Resource.Resource != "namespaces" {
		w.warnings = append(w.warnings, r.Resource.Resource+" are in no namespace: no API server asks with one")
	}
	var err error
	if r.Access.Labels, err = simulate.Labels(f.labels); err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	if r.Access.Fields, err = simulate.Fields(f.fields); err != nil {
		return nil, fmt.Errorf("--field-selector: %w", err)
	}
	if name := explain.SelectedName(r); name != "" {
		r.Name = name
	}
	f.namespaceFrom(r, w)
	return r, nil
}

// verbs are those of requests for resources, and methods those of requests for paths.
var (
	verbs   = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate", "approve", "sign", "attest", "use", "proxy"}
	methods = []string{"get", "head", "post", "put", "patch", "delete", "options"}
)

// warnVerb adds a warning about a verb that is similar to one of Kubernetes. Others may be those of an aggregated API.
func (w *World) warnVerb(verb string, path bool) {
	known := verbs
	if path {
		known = methods
	}
	if near := rule.Nearest(verb, known); near != "" && near != verb {
		w.warnings = append(w.warnings, fmt.Sprintf("no verb of Kubernetes is called %q: did you mean %s?", verb, near))
	}
}

// namespaceFrom sets the namespace of a request for one Namespace: API servers ask about namespaces/NAME
// in the namespace NAME, so that what is bound there counts.
func (f *targetFlags) namespaceFrom(r *usher.Request, w *World) {
	if !ofNamespaces(r) || r.Name == "" {
		return
	}
	if !f.assumed && f.namespace != "" && f.namespace != r.Name {
		w.warnings = append(w.warnings, fmt.Sprintf("-n %s does not count: API servers ask about namespaces/%s in the namespace %[2]s", f.namespace, r.Name))
	}
	r.Namespace = r.Name
}

// ofNamespaces reports whether a request is for Namespaces, by a verb with a name in its path.
func ofNamespaces(r *usher.Request) bool {
	return !r.Access.NonResource && r.Resource.Group == "" && r.Resource.Resource == "namespaces" &&
		!authz.HasSelectors(r.Access.Verb) && (r.Access.Verb != "create" || r.Subresource != "")
}

// subresources are subresources that are easily mistaken for names, and vice versa.
var subresources = []string{"approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "scale", "status", "token"}

// resource finds the group of a resource: from the cluster, from a suffix, or from the resources of
// every cluster.
func (w *World) resource(text string) schema.GroupVersionResource {
	if text == "*" {
		return schema.GroupVersionResource{Group: "*", Resource: "*"}
	}
	resource := schema.ParseGroupResource(strings.ToLower(text))
	if w.clients != nil {
		if found, err := w.clients.Mapper.ResourceFor(resource.WithVersion("")); err == nil {
			return schema.GroupVersionResource{Group: found.Group, Resource: found.Resource, Version: found.Version}
		}
	}
	if resource.Group == "" {
		resource.Group = groupOf(resource.Resource)
		if near := cluster.NearResource(resource.Resource); near != "" {
			w.warnings = append(w.warnings, fmt.Sprintf("no resource of Kubernetes is called %q: did you mean %s?", resource.Resource, near))
		}
	}
	return resource.WithVersion("")
}

// scopeOf returns the scope of a resource: of one that not every cluster has, by what the cluster says.
func (w *World) scopeOf(r schema.GroupVersionResource) authz.Scope {
	scope := authz.ScopeOf(r.Group, r.Resource)
	if scope != authz.ScopeUnknown || w.clients == nil || r.Resource == "*" {
		return scope
	}
	kind, err := w.clients.Mapper.KindFor(r)
	if err != nil {
		return scope
	}
	mapping, err := w.clients.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return authz.ScopeCluster
	}
	return scope
}

// groupOf returns the API group of a resource that every cluster has.
func groupOf(resource string) string {
	for group, resources := range map[string][]string{
		"apps":                         {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
		"batch":                        {"cronjobs", "jobs"},
		"autoscaling":                  {"horizontalpodautoscalers"},
		"networking.k8s.io":            {"ingressclasses", "ingresses", "networkpolicies"},
		"policy":                       {"poddisruptionbudgets"},
		"rbac.authorization.k8s.io":    {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
		"storage.k8s.io":               {"csidrivers", "csinodes", "storageclasses", "volumeattachments"},
		"apiextensions.k8s.io":         {"customresourcedefinitions"},
		"admissionregistration.k8s.io": {"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingwebhookconfigurations"},
		"certificates.k8s.io":          {"certificatesigningrequests"},
		"coordination.k8s.io":          {"leases"},
		"discovery.k8s.io":             {"endpointslices"},
		"scheduling.k8s.io":            {"priorityclasses"},
	} {
		if slices.Contains(resources, resource) {
			return group
		}
	}
	for _, kind := range api.Kinds() {
		if kind.Resource == resource {
			return kind.Group
		}
	}
	return ""
}

// describeRequest describes the request in one line.
func describeRequest(r *usher.Request) string {
	if r.Access.NonResource {
		return r.Access.Verb + " " + r.Access.Path
	}
	text := r.Access.Verb + " " + r.Resource.GroupResource().String()
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	switch {
	case r.Namespace != "":
		text += " in namespace " + r.Namespace
	case authz.ScopeOf(r.Resource.Group, r.Resource.Resource) == authz.ScopeNamespace:
		text += " in all namespaces"
	}
	return text
}
