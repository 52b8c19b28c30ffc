package try

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/clients"
)

// clusterFlags name the cluster that a command reads.
type clusterFlags struct {
	fromCluster         bool
	kubeconfig, context string
}

// registerIn adds the flags. More is added to the help of --from-cluster after a semicolon; it can
// be empty.
func (f *clusterFlags) registerIn(flags *pflag.FlagSet, more string) {
	flags.BoolVar(&f.fromCluster, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it"+more)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
}

func (f *clusterFlags) validateCluster() error {
	if !f.fromCluster && (f.kubeconfig != "" || f.context != "") {
		return errors.New("--kubeconfig and --context are for --from-cluster")
	}
	return nil
}

func (f *clusterFlags) rest() (*rest.Config, error) {
	config, err := cluster.Find(f.kubeconfig, f.context)
	if err != nil {
		return nil, fmt.Errorf("--from-cluster: %w", err)
	}
	return config, nil
}

// connect returns clients of the cluster.
func (f *clusterFlags) connect() (*clients.Set, error) {
	config, err := f.rest()
	if err != nil {
		return nil, err
	}
	clients, err := clients.Connect(config)
	if err != nil {
		return nil, fmt.Errorf("--from-cluster: %w", err)
	}
	return clients, nil
}

// loadedFromCluster returns the policies in files and in the cluster, and the resolver of their
// facts, which come from the cluster.
func (f *decideFlags) loadedFromCluster(cmd *cobra.Command, s cli.Streams) (policies.Set, fact.Resolver, error) {
	clients, err := f.connect()
	if err != nil {
		return policies.Set{}, nil, err
	}
	stored, forbidden, err := policies.FromCluster(cmd, s, clients.Policies, "")
	if err != nil {
		return policies.Set{}, nil, fmt.Errorf("--from-cluster: %w", err)
	}
	set, err := policies.UsableWith(cmd, s, f.policies, stored, &f.limits)
	if err != nil {
		return policies.Set{}, nil, policies.Without(forbidden, err)
	}
	if len(forbidden) > 0 {
		cli.Notef(cmd, s, "warning", "%s: these are left out", policies.NoRight(forbidden))
	}
	return set, f.facts.FromCluster(clients), nil
}
