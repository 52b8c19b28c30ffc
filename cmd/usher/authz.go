package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/compile"
	accessengine "github.com/usher-dev/usher/engine/access"
	"github.com/usher-dev/usher/fact/object"
	accessindex "github.com/usher-dev/usher/index/access"
	"github.com/usher-dev/usher/internal/serve"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/access"
	simulate "github.com/usher-dev/usher/simulate/access"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

func newAuthz(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "authz",
		Short: "Ask who may do what, and connect API servers for authorization",
		Long: `Authz answers questions about authorization: by the policies of usher.dev, and by RBAC,
as API servers would, from files or from a cluster. Nothing is changed anywhere.

An API server asks several authorizers until one allows or denies. Here they are those
that 'usher authz config' writes: node, Usher's denials, RBAC, what Usher allows.`,
		Example: `  # may she, and why?
  usher authz can-i list secrets -n team-a --as jane --as-group devs -p policies/ --rbac rbac/ --explain

  # who may?
  usher authz who-can delete pods -n team-a --kubeconfig ~/.kube/config

  # what may she?
  usher authz what-can --as jane --as-group devs -p policies/

  # what does an edit change?
  usher authz diff old-policies/ policies/

  # what do API servers need to ask Usher?
  usher authz config --server https://127.0.0.1:8444 -p policies/ --out /etc/kubernetes/usher`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newCanI(s), newWhoCan(s), newWhatCan(s), newAuthzDiff(s), newAuthzConfig(s), newAuthzLint(s))
	return cmd
}

// worldFlags say where policies and RBAC objects come from.
type worldFlags struct {
	policies, rbac []string
	cluster        clusterFlags
}

func (f *worldFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.policies, "policies", "p", nil, "file or folder with policies (repeatable); before those of a cluster")
	flags.StringArrayVar(&f.rbac, "rbac", nil, "file or folder with roles and bindings (repeatable); in place of those of a cluster")
	flags.StringVar(&f.cluster.kubeconfig, "kubeconfig", "", "kubeconfig of a cluster whose policies, roles and bindings count")
	flags.StringVar(&f.cluster.context, "context", "", "context of --kubeconfig, if it is not the current one")
}

// A world is all that answers depend on.
type world struct {
	rules    []*access.Rule
	engine   *accessengine.Engine
	rbac     *simulate.RBAC
	warnings []string
	// clients is nil without a cluster.
	clients *serve.Clients
}

// load reads everything. Policies that do not compile are left out, with a warning.
func (f *worldFlags) load(ctx context.Context) (*world, error) {
	if len(f.policies) == 0 && len(f.rbac) == 0 && f.cluster.kubeconfig == "" {
		return nil, errors.New("nothing to go by: name policies with --policies, roles and bindings with --rbac, or a cluster with --kubeconfig")
	}
	w := &world{}
	if f.cluster.kubeconfig != "" {
		f.cluster.qps, f.cluster.burst = 100, 200
		var err error
		if w.clients, err = f.cluster.connect(); err != nil {
			return nil, err
		}
	}
	policies, err := f.loadPolicies(ctx, w)
	if err != nil {
		return nil, err
	}
	w.enforce(policies)
	objects, err := f.loadRBAC(ctx, w)
	if err != nil {
		return nil, err
	}
	var warnings []string
	w.rbac, warnings = simulate.NewRBAC(objects)
	w.warnings = append(w.warnings, warnings...)
	return w, nil
}

// enforce makes an engine of policies; of two with the same name the first one counts.
func (w *world) enforce(policies []api.Policy) {
	known := map[usher.PolicyRef]bool{}
	var compiled []compile.Compiled
	for _, policy := range policies {
		c := compile.Policy(policy)
		if known[c.Ref] {
			continue
		}
		known[c.Ref] = true
		if errs := rule.Errors(c.Problems); len(errs) > 0 {
			w.warnings = append(w.warnings, fmt.Sprintf("%s is left out, since it does not compile: %s", c.Ref, errs[0].What))
			continue
		}
		compiled = append(compiled, c)
	}
	w.rules = compile.Access(compiled)
	w.engine = accessengine.New(accessindex.New(w.rules), accessengine.Options{})
}

func (f *worldFlags) loadPolicies(ctx context.Context, w *world) ([]api.Policy, error) {
	var policies []api.Policy
	if len(f.policies) > 0 {
		set, err := readPolicySet(f.policies, w)
		if err != nil {
			return nil, err
		}
		policies = set.Policies
	}
	if w.clients == nil {
		return policies, nil
	}
	for _, resource := range []string{"clusterauthorizationpolicies", "authorizationpolicies"} {
		found, err := clusterPolicies(ctx, w.clients, resource)
		if apierrors.IsNotFound(err) {
			w.warnings = append(w.warnings, "the cluster does not know "+resource+".usher.dev")
			continue
		}
		if err != nil {
			return nil, err
		}
		policies = append(policies, found...)
	}
	return policies, nil
}

func readPolicySet(paths []string, w *world) (source.Set, error) {
	set, err := dir.Load(paths...)
	for _, unreadable := range set.Unreadable {
		w.warnings = append(w.warnings, fmt.Sprintf("%s is left out: %v", unreadable.Position.File, unreadable.Err))
	}
	return set, err
}

func clusterPolicies(ctx context.Context, clients *serve.Clients, resource string) ([]api.Policy, error) {
	list, err := clients.Policies.Resource(usherv1alpha1.GroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	var policies []api.Policy
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			return nil, fmt.Errorf("encode policy: %w", err)
		}
		policy, err := api.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("decode policy %s: %w", list.Items[i].GetName(), err)
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

func (f *worldFlags) loadRBAC(ctx context.Context, w *world) (simulate.Objects, error) {
	if len(f.rbac) > 0 {
		trees, err := object.Load(f.rbac...)
		if err != nil {
			return simulate.Objects{}, err
		}
		objects, err := simulate.FromTrees(trees)
		if err == nil && objects.Empty() {
			err = fmt.Errorf("no roles and no bindings in %s", strings.Join(f.rbac, ", "))
		}
		return objects, err
	}
	if w.clients == nil {
		w.warnings = append(w.warnings, "RBAC is not known: name roles and bindings with --rbac, or a cluster with --kubeconfig")
		return simulate.Objects{}, nil
	}
	return clusterRBAC(ctx, w.clients)
}

func clusterRBAC(ctx context.Context, clients *serve.Clients) (simulate.Objects, error) {
	rbac := clients.Kube.RbacV1()
	var o simulate.Objects
	clusterRoles, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list ClusterRoles: %w", err)
	}
	roles, err := rbac.Roles("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list Roles: %w", err)
	}
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	bindings, err := rbac.RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list RoleBindings: %w", err)
	}
	return simulate.Objects{
		ClusterRoles: clusterRoles.Items, Roles: roles.Items, ClusterRoleBindings: clusterBindings.Items, RoleBindings: bindings.Items,
	}, nil
}

// chain are the authorizers, in the order that 'usher authz config' writes.
func (w *world) chain() simulate.Chain {
	return simulate.Chain{
		{Name: "system:masters", Authorizer: simulate.Privileged()},
		{Name: "health paths", Authorizer: simulate.AlwaysAllowedPaths()},
		{Name: "node", Authorizer: simulate.Node()},
		{Name: denyStage, Authorizer: simulate.Webhook(w.engine, usher.Deny)},
		{Name: "rbac", Authorizer: w.rbac},
		{Name: allowStage, Authorizer: simulate.Webhook(w.engine, usher.Allow)},
	}
}

// The stages of Usher.
const (
	denyStage  = "usher (deny)"
	allowStage = "usher (allow)"
)

// userFlags say who asks.
type userFlags struct {
	name, uid string
	groups    []string
	extra     []string
}

func (f *userFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "as", "", "user who asks; system:serviceaccount:NAMESPACE:NAME is a service account, with its groups")
	flags.StringArrayVar(&f.groups, "as-group", nil, "group of the user (repeatable); system:authenticated is always one")
	flags.StringVar(&f.uid, "as-uid", "", "UID of the user")
	flags.StringArrayVar(&f.extra, "as-extra", nil, "what else is known about the user, as KEY=VALUE (repeatable)")
}

// user is who asks, with the groups that API servers add.
func (f *userFlags) user() (usher.User, error) {
	u := usher.User{Name: f.name, UID: f.uid, Groups: slices.Clone(f.groups)}
	for _, pair := range f.extra {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return u, fmt.Errorf("--as-extra %s: KEY=VALUE is wanted", pair)
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], value)
	}
	return completeUser(u), nil
}

func completeUser(u usher.User) usher.User {
	add := func(groups ...string) {
		for _, group := range groups {
			if !slices.Contains(u.Groups, group) {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	if account, ok := strings.CutPrefix(u.Name, "system:serviceaccount:"); ok {
		if namespace, _, ok := strings.Cut(account, ":"); ok {
			add("system:serviceaccounts", "system:serviceaccounts:"+namespace)
		}
	}
	if u.Name == "system:anonymous" {
		add("system:unauthenticated")
	} else {
		add("system:authenticated")
	}
	return u
}

// describeUser is the user in one line.
func describeUser(u usher.User) string {
	name := u.Name
	if name == "" {
		name = "somebody"
	}
	return name + " (" + strings.Join(u.Groups, ", ") + ")"
}

// targetFlags say what is asked for.
type targetFlags struct {
	namespace, subresource string
	labels, fields         string
	url                    string
}

func (f *targetFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; without it the request is for all namespaces, or for what is in none")
	flags.StringVar(&f.subresource, "subresource", "", "subresource, such as exec, log or status")
	flags.StringVarP(&f.labels, "selector", "l", "", "label selector of a list, watch or deletecollection")
	flags.StringVar(&f.fields, "field-selector", "", "field selector of a list, watch or deletecollection")
	flags.StringVar(&f.url, "url", "", "HTTP request in place of verb and resource, as METHOD:PATH, such as 'GET:/api/v1/pods?labelSelector=a%3Db'")
}

// request is what is asked for, by u.
func (f *targetFlags) request(args []string, u usher.User, w *world) (*usher.Request, error) {
	if f.url != "" {
		method, path, ok := strings.Cut(f.url, ":")
		if !ok || len(args) > 0 {
			return nil, errors.New("--url: METHOD:PATH is wanted, and neither verb nor resource")
		}
		line, err := simulate.ParseLine(method, path)
		if err != nil {
			return nil, err
		}
		return line.Request(u), nil
	}
	if len(args) != 2 {
		return nil, errors.New("a verb and a resource are wanted, such as: list secrets, get pods/web, get /metrics")
	}
	r := &usher.Request{Phase: usher.Authorize, User: u, Access: &usher.Access{Verb: args[0]}}
	if strings.HasPrefix(args[1], "/") {
		r.Access.NonResource, r.Access.Path = true, args[1]
		return r, nil
	}
	resource, name, _ := strings.Cut(args[1], "/")
	r.Resource, r.Name = w.resource(resource), name
	r.Namespace, r.Subresource = f.namespace, f.subresource
	if f.subresource == "" && slices.Contains(subresources, name) {
		w.warnings = append(w.warnings, fmt.Sprintf("%q is taken for a name: the subresource is --subresource %s", name, name))
	}
	if r.Namespace != "" && access.ScopeOf(r.Resource.Group, r.Resource.Resource) == access.ScopeCluster && r.Resource.Resource != "namespaces" {
		w.warnings = append(w.warnings, r.Resource.Resource+" are in no namespace: no API server asks with one")
	}
	var err error
	if r.Access.Labels, err = simulate.Labels(f.labels); err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	if r.Access.Fields, err = simulate.Fields(f.fields); err != nil {
		return nil, fmt.Errorf("--field-selector: %w", err)
	}
	f.nameFrom(r)
	return r, nil
}

// nameFrom names the object that a field selector asks for, as API servers do.
func (f *targetFlags) nameFrom(r *usher.Request) {
	if !slices.Contains([]string{"list", "watch", "deletecollection"}, r.Access.Verb) || r.Name != "" {
		return
	}
	for _, field := range r.Access.Fields {
		if field.Key == "metadata.name" && field.Operator == "In" {
			r.Name = field.Values[0]
		}
	}
}

// subresources are those that people take for names, and the other way round.
var subresources = []string{"approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "scale", "status", "token"}

// resource finds out the group of a resource: from the cluster, from a suffix, or because
// everybody knows it.
func (w *world) resource(text string) schema.GroupVersionResource {
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
	}
	return resource.WithVersion("")
}

// groupOf is the API group of a resource that every cluster has.
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
		"usher.dev":                    {"authorizationpolicies", "clusterauthorizationpolicies"},
	} {
		if slices.Contains(resources, resource) {
			return group
		}
	}
	return ""
}

// describeRequest is what is asked for in one line.
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
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// warn prints what may make an answer less than exact.
func (w *world) warn(s streams) {
	for _, warning := range w.warnings {
		fmt.Fprintln(s.err, "warning:", warning)
	}
}
