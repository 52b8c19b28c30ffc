package authorize

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/serve"
)

func newRotateProofKey(s cli.Streams) *cobra.Command {
	var f proofFlags
	var secret string
	cmd := &cobra.Command{
		Use:   "rotate-proof-key",
		Short: "Replace the key of policy proofs, and renew the proofs",
		Long: `Rotate-proof-key replaces the key by which policies are proven, and has every proof by the
key before renewed, by writing an annotation of the policy. Proofs by both keys count until
keys are rotated again; before that, proofs are renewed that were not.

The new key proves policies when every replica has read it, within half a minute. It takes the
right to read and change the Secret, and to patch policies. It does not take the verb escalate:
what is not proven stays so. Use it when somebody may have read the Secret, and twice if so:
the key before counts until then.`,
		Example: `  usher authz rotate-proof-key
  usher authz rotate-proof-key --kubeconfig admin.conf --namespace policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.client()
			if err != nil {
				return err
			}
			config, err := cluster.Find(f.kubeconfig, f.context)
			if err != nil {
				return err
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("find cluster: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			r := &Rotation{Client: client, Kube: kube, Namespace: f.namespace, Secret: secret, Streams: s}
			return r.Run(ctx)
		},
	}
	f.register(cmd.Flags(), "namespace of Usher")
	f.namespace = cluster.DefaultNamespace
	cmd.Flags().Lookup("namespace").DefValue = cluster.DefaultNamespace
	cmd.Flags().StringVar(&secret, "proof-secret", serve.DefaultProofSecret, "Secret with the keys of policy proofs")
	return cmd
}

// renewEvery is how long to wait for replicas to read a new key.
const renewEvery = 2 * time.Second

// A Rotation replaces the key of proofs.
type Rotation struct {
	Client            dynamic.Interface
	Kube              kubernetes.Interface
	Namespace, Secret string
	Streams           cli.Streams
}

// Run replaces the key and renews all proofs by the one before.
func (r *Rotation) Run(ctx context.Context) error {
	secrets := r.Kube.CoreV1().Secrets(r.Namespace)
	if _, err := secrets.Get(ctx, r.Secret, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no Secret %s/%s: name that of the servers with --namespace and --proof-secret", r.Namespace, r.Secret)
	}
	keeper := keyring.NewKeeper(secrets, keyring.Options{
		Namespace: r.Namespace, Name: r.Secret, Purpose: "policy proofs", Log: slog.New(slog.DiscardHandler),
	})
	keys, err := keeper.Load(ctx)
	if err != nil {
		return err
	}
	if err := r.renew(ctx, keys); err != nil {
		return err
	}
	if keys, err = keeper.Rotate(ctx, func(k keyring.Keys) bool { return k.Current == keys.Current }); err != nil {
		return err
	}
	fmt.Fprintf(r.Streams.Out, "Secret %s/%s has a new %s\n", r.Namespace, r.Secret, keys.Current)
	return r.renew(ctx, keys)
}

// renew has proofs by the previous key replaced by such of the current one.
func (r *Rotation) renew(ctx context.Context, keys keyring.Keys) error {
	if keys.Previous.IsZero() {
		return nil
	}
	renewed := 0
	for {
		policies, err := Policies(ctx, r.Client, "")
		if err != nil {
			return err
		}
		left := 0
		for i := range policies {
			p := &policies[i]
			if p.Unproven != "" && p.Unproven != untold || proof.KeyOf(p.Proof) != keys.Previous.Fingerprint() {
				continue
			}
			text, err := p.annotate(ctx, r.Client, nil, metav1.PatchOptions{FieldManager: "usher-rotate"})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil && !apierrors.IsConflict(err):
				return fmt.Errorf("renew the proof of %s: %w; both keys count: repeat the command", p, err)
			case proof.KeyOf(text) == keys.Current.Fingerprint():
				renewed++
			default:
				left++
			}
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("renew the proofs of %d policies: %w; both keys count: repeat the command", left, ctx.Err())
		case <-time.After(renewEvery):
		}
	}
	if renewed > 0 {
		fmt.Fprintf(r.Streams.Out, "proofs renewed: %d\n", renewed)
	}
	return nil
}
