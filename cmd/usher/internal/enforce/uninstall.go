package enforce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/enroll"
	"github.com/usher-dev/usher/report"
)

type uninstallFlags struct {
	kubeconfig, context string
	name, namespace     string
	timeout             time.Duration
}

// Uninstall returns usher uninstall.
func Uninstall(s cli.Streams) *cobra.Command {
	var f uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Make a cluster stop asking Usher",
		Long: `Uninstall deletes the webhook configurations of Usher, so that API servers stop asking
it, and then the Leases of its servers. It works when no server runs any more, also if
every write is refused because of that, and can be repeated.

Servers that still run register again: stop them, and uninstall once more. Policies,
their definitions and the Secret with the certificate are left.

The exit status is 1 if something of that is still there, and 2 if the cluster cannot
be reached.`,
		Example: `  usher uninstall
  usher uninstall --kubeconfig admin.conf --namespace policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.rest()
			if err != nil {
				return fmt.Errorf("find cluster: %w", err)
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("find cluster: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			err = Remove(ctx, kube, f.name, f.namespace, s.Out)
			if err == nil || !Answered(err) {
				return err
			}
			fmt.Fprintln(s.Err, "usher:", strings.ReplaceAll(err.Error(), "\n", "\nusher: "))
			return cli.ErrNegative
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: what kubectl would use, or the cluster of this pod)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig, if it is not the current one")
	flags.StringVar(&f.name, "name", "usher", "name of the webhook configurations")
	flags.StringVar(&f.namespace, "namespace", cluster.DefaultNamespace, "namespace of Usher")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long it may take")
	return cmd
}

func (f *uninstallFlags) rest() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		rules, &clientcmd.ConfigOverrides{CurrentContext: f.context},
	).ClientConfig()
}

// Remove deletes what Usher has registered. It goes on after an error: what can be removed is. It tells what it does.
func Remove(ctx context.Context, kube kubernetes.Interface, name, namespace string, out io.Writer) error {
	removed := 0
	tell := func(kind, name string) {
		removed++
		fmt.Fprintf(out, "deleted %s %s\n", kind, name)
	}
	err := enroll.Remove(ctx, kube, name, tell)
	running, leasesErr := removeLeases(ctx, kube, namespace, tell)
	if running > 0 {
		fmt.Fprintf(out, "servers that still seem to run in namespace %s: %d; once they are stopped, uninstall again\n", namespace, running)
	}
	if err = errors.Join(err, leasesErr); err == nil && removed == 0 {
		fmt.Fprintf(out, "nothing to delete: no webhook configurations %s, no Leases in namespace %s\n", name, namespace)
	}
	return err
}

// removeLeases returns how many servers have renewed theirs as if they still ran.
func removeLeases(ctx context.Context, kube kubernetes.Interface, namespace string, tell func(kind, name string)) (running int, err error) {
	leases := kube.CoordinationV1().Leases(namespace)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: report.LeaseLabel})
	if err != nil {
		return 0, fmt.Errorf("list Leases in namespace %s: %w", namespace, err)
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
		if lease.Labels[report.LeaseLabel] == report.LeaseReplica && spec.RenewTime != nil && spec.LeaseDurationSeconds != nil &&
			time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second {
			running++
		}
	}
	return running, errors.Join(errs...)
}

// Answered reports whether it was the API server that said no, or Usher itself.
func Answered(err error) bool {
	var status apierrors.APIStatus
	var foreign *enroll.ForeignError
	return errors.As(err, &status) || errors.As(err, &foreign)
}
