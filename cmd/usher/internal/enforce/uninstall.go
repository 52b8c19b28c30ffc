package enforce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/report/openreports"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

type uninstallFlags struct {
	kubeconfig, context string
	Installation
	timeout time.Duration
}

// Uninstall returns usher uninstall.
func Uninstall(s cli.Streams) *cobra.Command {
	var f uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Make a cluster stop asking Usher",
		Long: `Uninstall deletes the webhook configurations of Usher, so that API servers stop asking
it, and then the Leases of its servers and the Secret with the keys of their URL paths. The status of policies says then that they are not enforced. It deletes the
reports of Usher, and their definitions if the chart of Usher installed them and there
are no reports of others. It works when no server runs any more, also if every write is
refused because of that, and can be repeated.

Servers that still run register again within half a minute: it warns of those that have
renewed their Leases lately. Stop them, and uninstall once more. Policies,
their definitions and the Secrets with the certificate and the keys of policy proofs are left:
if Usher comes back, policies are in force as they were.

With --purge, the keys of proofs are deleted, too. If Usher comes back then, policies that need
a proof are out of force, but for denials, until they are adopted: see 'usher authz adopt'.

What API servers ask about authorization is in files of theirs, which it cannot change: it warns
if there are authorization policies. Take the webhooks of Usher out of these files: API servers
that ask one that does not run answer with errors.

To turn off one policy for a while, set its field spec.suspend to true instead.

The exit status is 1 if something of that is still there, and 2 if the cluster cannot
be reached. With that warning it is 0: the Job of 'helm uninstall' runs while servers do, and
these have lost the right to register.`,
		Example: `  usher uninstall
  usher uninstall --kubeconfig admin.conf --namespace policy
  usher uninstall --purge`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kube, policies, err := f.clients()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			// Every step would fail for the same reason.
			if _, err := kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil && !Answered(err) {
				return fmt.Errorf("the cluster does not answer, and nothing was removed: %w", err)
			}
			err = errors.Join(Remove(ctx, kube, f.Installation, s), removeReports(ctx, kube.CoreV1().RESTClient(), s.Out))
			withdraw(ctx, policies, s)
			StillAsked(ctx, policies, s)
			if err == nil || !Answered(err) {
				return err
			}
			fmt.Fprintln(s.Err, "usher:", strings.ReplaceAll(err.Error(), "\n", "\nusher: "))
			return cli.ErrNegative
		},
	}
	flags := cmd.Flags()
	f.registerCluster(flags)
	flags.StringVar(&f.ProofSecret, "proof-secret", proof.DefaultSecret, "Secret in --namespace with the keys of policy proofs; for --purge")
	flags.BoolVar(&f.Purge, "purge", false, "delete the keys of policy proofs, too: policies that need a proof have to be adopted if Usher comes back")
	flags.StringVar(&f.Name, "webhook-configuration-name", "usher", "name of the webhook configurations")
	return cmd
}

// clients returns clients of the cluster that the flags name: for objects of Kubernetes, and for
// policies.
func (f *uninstallFlags) clients() (kubernetes.Interface, dynamic.Interface, error) {
	config, err := cluster.Find(f.kubeconfig, f.context)
	if err != nil {
		return nil, nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("find cluster: %w", err)
	}
	policies, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("find cluster: %w", err)
	}
	return kube, policies, nil
}

// withdraw writes into the status of policies that no server enforces them any more. An error does
// not stop the uninstallation.
func withdraw(ctx context.Context, policies dynamic.Interface, s cli.Streams) {
	n, err := report.Withdraw(ctx, policies, v1alpha1.ReasonUninstalled, "Usher was uninstalled: API servers do not ask it")
	if n > 0 {
		fmt.Fprintf(s.Out, "policies whose status says now that they are not enforced: %d\n", n)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "usher: the status of policies may still say that they are enforced: %v\n", err)
	}
}

// StillAsked warns that API servers go on asking about authorization, if there are policies for that.
func StillAsked(ctx context.Context, policies dynamic.Interface, s cli.Streams) {
	for _, kind := range api.Kinds() {
		if !kind.Authorizes {
			continue
		}
		// What cannot be listed was said before, of its status.
		if some, err := policies.Resource(kind.GroupVersionResource()).List(ctx, metav1.ListOptions{Limit: 1}); err == nil && len(some.Items) > 0 {
			fmt.Fprintln(s.Err, "warning: there are authorization policies: API servers that were configured to ask Usher about authorization go on asking it, and users get internal errors while it does not run. "+
				"Take its webhooks out of the AuthorizationConfiguration of each API server (docs/authorization.md: Two webhooks)")
			return
		}
	}
}

// removeReports deletes the reports of Usher, and prints what it deletes.
func removeReports(ctx context.Context, client rest.Interface, out io.Writer) error {
	err := openreports.Remove(ctx, client, func(kind, name string) { fmt.Fprintf(out, "deleted %s %s\n", kind, name) })
	if apierrors.IsForbidden(err) {
		// Installations that write no reports do not give the right to delete them.
		fmt.Fprintf(out, "reports are left, if there are any: %v\n", err)
		return nil
	}
	return err
}

// registerCluster registers the flags that locate Usher.
func (f *uninstallFlags) registerCluster(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the one that kubectl would use, or the cluster of this pod)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.StringVarP(&f.Namespace, "namespace", "n", cluster.DefaultNamespace, "namespace of Usher")
	flags.StringVar(&f.PathSecret, "path-secret", paths.DefaultSecret, "Secret in --namespace with the keys of the URL paths")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "timeout of the whole command")
}

// An Installation names the objects of Usher in a cluster: the webhook configurations, the Leases
// in a namespace, and the Secrets there with the keys of webhook URL paths and of policy proofs.
type Installation struct {
	Name, Namespace, PathSecret, ProofSecret string
	// Purge says that the keys of proofs are to be deleted, too: policies that need a proof lose it.
	Purge bool
}

// Remove deletes these objects, and prints what it deletes. It continues after an error.
func Remove(ctx context.Context, kube kubernetes.Interface, i Installation, s cli.Streams) error {
	removed, out := 0, s.Out
	tell := func(kind, name string) {
		removed++
		fmt.Fprintf(out, "deleted %s %s\n", kind, name)
	}
	err := webhookconfig.Remove(ctx, kube, i.Name, tell)
	running, leasesErr := removeLeases(ctx, kube, i.Namespace, tell)
	secretErr := errors.Join(removeSecret(ctx, kube, i.Namespace, i.PathSecret, tell), i.proofs(ctx, kube, tell, out))
	if len(running) > 0 {
		fmt.Fprintf(s.Err, "warning: servers in namespace %s may still run, since they have renewed their Leases lately: %s; one that runs and has the right to registers again within half a minute. "+
			"Stop them, as with 'kubectl -n %s scale deployment %s --replicas=0', and uninstall again\n",
			i.Namespace, printable.Line(strings.Join(running, ", ")), i.Namespace, i.Name)
	}
	if err = errors.Join(err, leasesErr, secretErr); err == nil && removed == 0 {
		fmt.Fprintf(out, "nothing to delete: no webhook configurations %s, no Leases and no keys in namespace %s\n", i.Name, i.Namespace)
	}
	return err
}

// removeLeases deletes the Leases, and returns which servers may still run: those that have
// renewed theirs lately.
func removeLeases(ctx context.Context, kube kubernetes.Interface, namespace string, tell func(kind, name string)) (running []string, err error) {
	leases := kube.CoordinationV1().Leases(namespace)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: replicas.LeaseLabel})
	if err != nil {
		return nil, fmt.Errorf("list Leases in namespace %s: %w", namespace, err)
	}
	var errs []error
	for i := range list.Items {
		lease := &list.Items[i]
		err := leases.Delete(ctx, lease.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove Lease %s/%s: %w", namespace, lease.Name, err))
			continue
		}
		tell("Lease", namespace+"/"+lease.Name)
		spec := &lease.Spec
		if lease.Labels[replicas.LeaseLabel] == replicas.LeaseReplica && spec.RenewTime != nil && spec.LeaseDurationSeconds != nil &&
			time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second {
			name := lease.Name
			if spec.HolderIdentity != nil {
				name = *spec.HolderIdentity
			}
			running = append(running, name)
		}
	}
	return running, errors.Join(errs...)
}

// removeSecret deletes a Secret with keys that are no longer used, unless the Secret is not
// Usher's.
func removeSecret(ctx context.Context, kube kubernetes.Interface, namespace, name string, tell func(kind, name string)) error {
	if name == "" {
		return nil
	}
	secrets := kube.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err == nil && secret.Labels["app.kubernetes.io/managed-by"] != "usher" {
		return nil
	}
	if err == nil {
		err = secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove Secret %s/%s: %w", namespace, name, err)
	}
	tell("Secret", namespace+"/"+name)
	return nil
}

// proofs deletes the keys of proofs, or says that they are kept.
func (i Installation) proofs(ctx context.Context, kube kubernetes.Interface, tell func(kind, name string), out io.Writer) error {
	if i.Purge {
		deleted := false
		err := removeSecret(ctx, kube, i.Namespace, i.ProofSecret, func(kind, name string) {
			deleted = true
			tell(kind, name)
		})
		if deleted {
			fmt.Fprintln(out, "the proofs of policies are worth nothing without these keys: if Usher comes back, policies that need one are out of force, but for denials, until 'usher authz adopt --all'")
		}
		return err
	}
	if i.ProofSecret == "" {
		return nil
	}
	if _, err := kube.CoreV1().Secrets(i.Namespace).Get(ctx, i.ProofSecret, metav1.GetOptions{}); err != nil {
		return nil //nolint:nilerr // Nothing depends on whether this is said.
	}
	fmt.Fprintf(out, "kept Secret %s/%s with the keys of proofs, for when Usher comes back: --purge deletes it\n", i.Namespace, i.ProofSecret)
	return nil
}

// Answered reports whether err is a response of the API server, or an error of Usher itself.
func Answered(err error) bool {
	var status apierrors.APIStatus
	var foreign *webhookconfig.ForeignError
	return errors.As(err, &status) || errors.As(err, &foreign)
}
