package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/webhookconfig"
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
	f.asker.self = func(ctx context.Context) (usher.User, error) { return user.Self(ctx, clients.Kube) }
	// As with kubectl.
	f.namespace, f.mapper = cmp.Or(f.namespace, cluster.NamespaceOf(f.kubeconfig, f.context)), clients.Mapper
	if o, ok := webhookconfig.LeavingOut(cmd.Context(), clients.Kube, webhookconfig.DefaultName); ok {
		f.registered = &o
	}
	in := []string{f.namespace}
	if len(f.files) > 0 {
		in = f.read(cmd, s).namespaces(f.namespace)
	}
	stored, forbidden, err := policies.Readable(cmd, s, clients.Policies, in...)
	if err != nil {
		return policies.Set{}, nil, fmt.Errorf("--from-cluster: %w", err)
	}
	set, err := policies.UsableWith(cmd, s, f.policies, stored, &f.limits)
	if err != nil {
		return policies.Set{}, nil, f.unlisted(cmd, s, clients, in[0], forbidden, err)
	}
	f.leftOut = policies.MayRefuse(forbidden)
	if len(forbidden) > 0 {
		cli.Notef(cmd, s, "warning", "%s: these are left out", policies.NoRight(forbidden))
		f.noteUnread = func() { f.noteUnlisted(cmd, s, in[0], forbidden) }
	}
	return set, f.facts.FromCluster(clients), nil
}

// unlisted returns the error of UsableWith, of the policies for a namespace. If there is no policy that the user may list, that is why an object that the
// command line names does not exist, or prints to s.Err how to learn what refuses it.
func (f *decideFlags) unlisted(cmd *cobra.Command, s cli.Streams, clients *clients.Set, in string, forbidden []policies.Forbidden, err error) error {
	if !errors.Is(err, policies.ErrNone) {
		return policies.Without(forbidden, err)
	}
	if missing := cluster.NoNamespace(cmd.Context(), clients.Facts, in); missing != nil {
		return fmt.Errorf("--from-cluster: %w", missing)
	}
	if _, missing := f.stored(cmd.Context()); missing != nil {
		return missing
	}
	f.noteUnlisted(cmd, s, in, forbidden)
	return policies.Without(forbidden, err)
}

// noteUnlisted prints to s.Err how to learn what refuses an object in a namespace, if that may be a policy that the
// user may not list.
func (f *decideFlags) noteUnlisted(cmd *cobra.Command, s cli.Streams, in string, forbidden []policies.Forbidden) {
	if len(policies.MayRefuse(forbidden)) == 0 {
		return
	}
	object := "-f FILE"
	switch {
	case len(f.named) > 0:
		object = f.named[0]
	case len(f.files) > 0 && f.files[0] != "-":
		object = "-f " + f.files[0]
	}
	cli.Notef(cmd, s, "note", "policies that you may not list may refuse it: the answer of the API server names them or, where pods are refused, the Events of their owner: "+
		"'kubectl get events -n %[1]s', 'usher watch -n %[1]s' (needs the Role usher-connect, or --server). Send that to the people who administer the cluster, who can exempt it: "+
		"'usher exempt --from-cluster %[2]s -n %[1]s --reason REASON --owner OWNER'", in, object)
}

// noteWritten prints to s.Err that objects of files may differ from those that the API server of the cluster
// would ask about.
func (f *clusterFlags) noteWritten(cmd *cobra.Command, s cli.Streams, questions []Question) {
	i := slices.IndexFunc(questions, func(q Question) bool { return q.written })
	if !f.fromCluster || i < 0 {
		return
	}
	file := questions[i].File
	if file == "-" {
		file = "the standard input"
	}
	cli.Notef(cmd, s, "note", "%s is judged as written, without the defaults that API servers set before they ask policies, except imagePullPolicy: a policy that reads one may decide otherwise; "+
		"the output of kubectl get -o yaml, or of kubectl create --dry-run=server -o yaml, has them", file)
}

// isWritten reports whether an object of a request is as a user wrote it, and not as API servers
// complete it.
func isWritten(r *usher.Request, object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	return r.Operation != usher.Delete && r.Operation != usher.Connect && metadata["uid"] == nil
}
