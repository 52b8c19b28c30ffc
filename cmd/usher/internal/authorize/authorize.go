// Package authorize has the commands about authorization: which users are allowed which requests,
// and why, and what API servers need to call Usher.
package authorize

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/compile"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	simulate "github.com/usher-dev/usher/internal/simulate/authz"
	"github.com/usher-dev/usher/source"
)

// Command returns usher authz with its subcommands.
func Command(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "authz",
		Short: "Ask who may do what, and connect API servers for authorization",
		Long: `Authz answers questions about authorization: by the policies of usher.dev, and by RBAC,
as API servers would, from files or from a cluster. Nothing is changed anywhere, except by
adopt and rotate-proof-key, which are about proofs of policies.

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
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newCanI(s), newWhoCan(s), newWhatCan(s), newAuthzDiff(s), newAuthzConfig(s), newAuthzLint(s), newAdopt(s), newRotateProofKey(s))
	return cmd
}

// worldFlags say where policies and RBAC objects come from.
type worldFlags struct {
	policies, rbac      []string
	kubeconfig, context string
}

func (f *worldFlags) register(flags *pflag.FlagSet) {
	policies.RegisterFlag(flags, &f.policies, "; they come before those of --kubeconfig")
	flags.StringArrayVar(&f.rbac, "rbac", nil, "file or folder with roles and bindings (repeatable); they replace those of --kubeconfig")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; its policies, roles and bindings are read (default for questions without files: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
}

// whatIf reports whether there may be something that the cluster does not have.
func (f *worldFlags) whatIf() bool { return len(f.policies) > 0 || len(f.rbac) > 0 }

// inCluster reports whether a cluster is read.
func (f *worldFlags) inCluster() bool { return !f.whatIf() || f.kubeconfig != "" || f.context != "" }

// A World holds everything that answers depend on.
type World struct {
	rules    []*authz.Rule
	Engine   *authzengine.Engine
	RBAC     *simulate.RBAC
	warnings []string
	// note says what the question did not.
	note string
	// rbacUnknown says that there are no roles and bindings to read.
	rbacUnknown bool
	// clients is nil if there is no cluster.
	clients *clients.Set
	// namespace is that of the question; empty if it is about all of them.
	namespace string
	// self says that the caller asks about themselves.
	self bool
	// leftOut are the kinds that the user may not list, and within those of which only the namespace was read.
	leftOut, within []string
}

// load reads everything for a question about a namespace, or all if it is empty. Policies that do not compile are left
// out, with a warning, and so is, of a question about a namespace, what the user may not list.
func (f *worldFlags) load(cmd *cobra.Command, s cli.Streams, namespace string) (*World, error) {
	w := &World{namespace: namespace}
	if f.inCluster() {
		config, err := cluster.Find(f.kubeconfig, f.context)
		if err != nil && !f.whatIf() {
			return nil, fmt.Errorf("nothing to go by: name policies with --policies, roles and bindings with --rbac, or a cluster: %w", err)
		}
		if err != nil {
			return nil, err
		}
		if w.clients, err = clients.Connect(config); err != nil {
			return nil, err
		}
		if missing := cluster.NoNamespace(cmd.Context(), w.clients.Facts, namespace); missing != nil {
			w.warnings = append(w.warnings, fmt.Sprintf("-n: %v", missing))
		}
	}
	found, err := f.loadPolicies(cmd, s, w)
	if err != nil {
		return nil, err
	}
	w.enforce(found)
	objects, err := f.loadRBAC(cmd.Context(), w)
	if err != nil {
		return nil, err
	}
	var warnings []string
	w.RBAC, warnings = simulate.NewRBAC(objects)
	w.warnings = append(w.warnings, warnings...)
	w.warnLeftOut()
	return w, nil
}

// enforce creates an engine from policies. Of two policies with the same name, the first one is
// used.
func (w *World) enforce(policies []api.Policy) {
	known := map[usher.PolicyRef]bool{}
	var compiled []compile.Compiled
	for _, policy := range policies {
		if kind, ok := api.KindOf(policy.Object); !ok || !kind.Authorizes {
			continue
		}
		if why := compile.Suspended(policy.Object); why != "" {
			w.warnings = append(w.warnings, fmt.Sprintf("%s: %s", compile.Ref(policy.Object), why))
			continue
		}
		if why := policy.Proof.Why; why != "" {
			// The condition of the policy says whether it is in force.
			w.warnings = append(w.warnings, fmt.Sprintf("%s is %s", compile.Ref(policy.Object), why))
		}
		if policy.Proof.State == api.Unproven {
			continue
		}
		c := compile.Policy(policy)
		if known[c.Ref] {
			continue
		}
		known[c.Ref] = true
		if errs := rule.Errors(c.Problems); len(errs) > 0 {
			w.warnings = append(w.warnings, fmt.Sprintf("%s is left out, since it does not compile: %s", c.Ref, errs[0].Text()))
			continue
		}
		compiled = append(compiled, c)
	}
	w.rules = compile.Access(compiled)
	w.Engine = authzengine.New(authzindex.New(w.rules), authzengine.Options{})
}

func (f *worldFlags) loadPolicies(cmd *cobra.Command, s cli.Streams, w *World) ([]api.Policy, error) {
	var all []api.Policy
	if len(f.policies) > 0 {
		set, err := readPolicySet(cmd, s, f.policies, w)
		if err != nil {
			return nil, err
		}
		all = set.Policies
	}
	if w.clients == nil {
		return all, nil
	}
	for _, kind := range api.Kinds() {
		if !kind.Authorizes {
			continue
		}
		var found []api.Policy
		err := w.list(kind.Resource, kind.Namespaced, func(namespace string) (err error) {
			found, err = ClusterPolicies(cmd.Context(), w.clients.Policies, kind, namespace)
			return err
		})
		if apierrors.IsNotFound(err) {
			if len(f.policies) == 0 {
				w.warnings = append(w.warnings, "the cluster does not know "+kind.GroupVersionResource().GroupResource().String())
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func readPolicySet(cmd *cobra.Command, s cli.Streams, paths []string, w *World) (source.Set, error) {
	set, err := policies.Read(cmd, s, paths)
	for _, unreadable := range set.Unreadable {
		w.warnings = append(w.warnings, fmt.Sprintf("%s is left out: %v", unreadable.Position.File, unreadable.Err))
	}
	return set, err
}

// ClusterPolicies returns the policies of a kind in a cluster, or in one of its namespaces. Without the key, a proof cannot be
// checked: the status of a policy says whether it has one, and Unproven holds the policies that are
// not in force.
func ClusterPolicies(ctx context.Context, client dynamic.Interface, kind api.Kind, namespace string) ([]api.Policy, error) {
	list, err := cluster.Policies(client, &kind, namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
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
		policy.Proof = cluster.ProofOf(&list.Items[i])
		policies = append(policies, policy)
	}
	return policies, nil
}

func (f *worldFlags) loadRBAC(ctx context.Context, w *World) (simulate.Objects, error) {
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
		w.rbacUnknown = true
		w.warnings = append(w.warnings, "RBAC is not known: name roles and bindings with --rbac, or a cluster with --kubeconfig")
		return simulate.Objects{}, nil
	}
	return w.clusterRBAC(ctx)
}

// chain returns the authorizers, in the order that 'usher authz config' writes.
func (w *World) chain() simulate.Chain {
	return simulate.Chain{
		{Name: "system:masters", Authorizer: simulate.Privileged()},
		{Name: "health paths", Authorizer: simulate.AlwaysAllowedPaths()},
		{Name: "node", Authorizer: simulate.Node()},
		{Name: denyStage, Authorizer: simulate.Webhook(w.Engine, usher.Deny)},
		{Name: rbacStage, Authorizer: w.RBAC},
		{Name: allowStage, Authorizer: simulate.Webhook(w.Engine, usher.Allow)},
	}
}

// Stages of the chain.
const (
	denyStage  = "usher (deny)"
	rbacStage  = "rbac"
	allowStage = "usher (allow)"
)

// warn prints the reasons why an answer may be inexact.
func (w *World) warn(cmd *cobra.Command, s cli.Streams) {
	for _, warning := range w.warnings {
		cli.Notef(cmd, s, "warning", "%s", warning)
	}
	if w.note != "" {
		cli.Notef(cmd, s, "note", "%s", w.note)
	}
}
