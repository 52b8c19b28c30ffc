package authorize

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/proofs"
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

It waits until every replica uses the new key, which takes about half a minute. It takes the
right to read and change the Secret, to list Leases in the namespace of Usher, and to patch
policies. It does not take the verb escalate: what is not proven stays so. Use it when somebody
may have read the Secret, and twice if so: the key before counts until then.`,
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
	cmd.Flags().StringVar(&secret, "proof-secret", proof.DefaultSecret, "Secret in --namespace with the keys of policy proofs")
	return cmd
}

// rotationPause is how long to wait before asking again whether replicas have read a new key.
const rotationPause = 2 * time.Second

// A Rotation replaces the key of proofs.
type Rotation struct {
	Client            dynamic.Interface
	Kube              kubernetes.Interface
	Namespace, Secret string
	Streams           cli.Streams
	// Replicas returns the replicas of Usher; if nil, their Leases name them.
	Replicas func(context.Context) ([]replicas.Peer, error)
	// Pause waits between two checks; if nil, for rotationPause.
	Pause func(context.Context)
}

// Run replaces the key and renews all proofs by the previous key.
func (r *Rotation) Run(ctx context.Context) error {
	if r.Replicas == nil {
		r.Replicas = replicas.New(r.Kube.CoordinationV1(), replicas.Options{Namespace: r.Namespace}).Peers
	}
	if r.Pause == nil {
		r.Pause = func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(rotationPause):
			}
		}
	}
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

// settle waits until every replica makes proofs by the current key. Proofs that were renewed
// earlier could be replaced by proofs of the previous key again.
func (r *Rotation) settle(ctx context.Context, keys keyring.Keys) error {
	for {
		peers, err := r.Replicas(ctx)
		if err != nil {
			return err
		}
		late := proofs.ProvingWithout(keys.Current, peers)
		if len(late) == 0 {
			return nil
		}
		if r.Pause(ctx); ctx.Err() != nil {
			return fmt.Errorf("wait for replicas that do not use %s yet (%s): %w; both keys count: repeat the command, and look at the log there",
				keys.Current, strings.Join(late, ", "), ctx.Err())
		}
	}
}

// renew replaces proofs by the previous key with proofs by the current one, when all replicas use
// it. It leaves proofs that are known to be invalid.
func (r *Rotation) renew(ctx context.Context, keys keyring.Keys) error {
	if err := r.settle(ctx, keys); err != nil || keys.Previous.IsZero() {
		return err
	}
	renewed, skipped := 0, map[string]bool{}
	for left := true; left; {
		policies, err := Policies(ctx, r.Client, "", func(err error) error { return err })
		if err != nil {
			return err
		}
		left = false
		for i := range policies {
			p := &policies[i]
			if skipped[p.String()] || proof.KeyOf(p.Proof) != keys.Previous.Fingerprint() {
				continue
			}
			// Usher makes a new proof for every write. If no webhook is called, the old proof
			// stays.
			text, err := p.annotate(ctx, r.Client, p.Proof, metav1.PatchOptions{FieldManager: "usher-rotate"})
			switch {
			case apierrors.IsNotFound(err):
			case apierrors.IsConflict(err):
				left = true
			case err != nil:
				return fmt.Errorf("renew the proof of %s: %w; both keys count: repeat the command", p, err)
			case proof.KeyOf(text) == keys.Current.Fingerprint():
				renewed, left = renewed+1, true
			case p.Unproven == "" || p.Unproven == untold:
				return fmt.Errorf("renew the proof of %s: the API server did not ask Usher, or the proof is not valid: look at 'usher authz adopt' and at the webhook configurations; "+
					"both keys count: repeat the command", p)
			default:
				skipped[p.String()] = true
				fmt.Fprintf(r.Streams.Err, "usher: the proof of %s is not renewed, because it is not valid: %s\n", p, p.Unproven)
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("renew the proofs of policies: %w; both keys count: repeat the command", err)
		}
	}
	if renewed > 0 {
		fmt.Fprintf(r.Streams.Out, "proofs renewed: %d\n", renewed)
	}
	return nil
}
