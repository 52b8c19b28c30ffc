package enforce

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/keyring"
)

func newRotatePaths(s cli.Streams) *cobra.Command {
	var f uninstallFlags
	cmd := &cobra.Command{
		Use:   "rotate-paths",
		Short: "Give the webhooks new URL paths",
		Long: `Rotate-paths replaces the key from which servers derive the URL paths of their admission
webhooks. The servers read it within ten seconds, and register the new paths when all of
them have. The paths of the key before are answered for an hour. No request is lost.

Servers do the same once a day, and after none of them was running. Use it when somebody
may have learned a path: an API server that cannot reach a webhook with the failure policy
Fail shows its URL to the user whose write it refuses.

Nothing that is printed tells a path.`,
		Example: `  usher admission rotate-paths
  usher admission rotate-paths --kubeconfig admin.conf --namespace policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kube, _, err := f.clients()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			key, err := RotatePaths(ctx, kube, f.Namespace, f.PathSecret)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "Secret %s/%s has a new %s; /readyz?verbose of each server tells which key it uses\n", f.Namespace, f.PathSecret, key)
			return nil
		},
	}
	f.registerCluster(cmd.Flags())
	return cmd
}

// RotatePaths replaces the key in an existing Secret: a new Secret would have no effect, because no
// server reads it.
func RotatePaths(ctx context.Context, kube kubernetes.Interface, namespace, name string) (keyring.Key, error) {
	secrets := kube.CoreV1().Secrets(namespace)
	if _, err := secrets.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return keyring.Key{}, fmt.Errorf("there is no Secret %s/%s: name that of the servers with --namespace and --path-secret", namespace, name)
	}
	began := time.Now()
	keeper := keyring.NewKeeper(secrets, keyring.Options{Namespace: namespace, Name: name, Purpose: "webhook paths", Log: slog.New(slog.DiscardHandler)})
	keys, err := keeper.Rotate(ctx, func(k keyring.Keys) bool { return k.Replaced.Before(began) })
	return keys.Current, err
}
