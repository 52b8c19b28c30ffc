// Package cluster has the flags of commands that talk to a cluster for as long as they run.
package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/clients"
)

// DefaultNamespace is the namespace of Usher by default.
const DefaultNamespace = "usher-system"

// Flags select the cluster that a command talks to, and the namespace of Usher.
type Flags struct {
	Kubeconfig, Context string
	InCluster           bool
	Namespace           string
	QPS                 float32
	Burst               int
}

// Register adds the flags to flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.BoolVar(&f.InCluster, "in-cluster", false, "use the cluster in which this process runs as a pod, with its service account")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of Usher (default: $POD_NAMESPACE, that of the pod, or "+DefaultNamespace+")")
	flags.Float32Var(&f.QPS, "kube-api-qps", 100, "average number of requests to the API server per second")
	flags.IntVar(&f.Burst, "kube-api-burst", 200, "maximum number of requests to the API server at once")
}

// Given reports whether there is a cluster to talk to.
func (f *Flags) Given() bool { return f.Kubeconfig != "" || f.InCluster }

// Complete checks the flags and determines the namespace.
func (f *Flags) Complete() error {
	switch {
	case f.Kubeconfig != "" && f.InCluster:
		return errors.New("--kubeconfig and --in-cluster exclude each other")
	case f.Context != "" && f.Kubeconfig == "":
		return errors.New("--context is one of --kubeconfig")
	case f.QPS <= 0 || f.Burst <= 0:
		return errors.New("--kube-api-qps and --kube-api-burst must be more than 0")
	}
	f.Namespace = cmp.Or(f.Namespace, os.Getenv("POD_NAMESPACE"), os.Getenv("NAMESPACE"))
	if f.Namespace == "" && f.InCluster {
		// An unreadable file counts as absent.
		mounted, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		f.Namespace = strings.TrimSpace(string(mounted))
	}
	f.Namespace = cmp.Or(f.Namespace, DefaultNamespace)
	return nil
}

// Connect makes clients; it does not talk to the API server yet.
func (f *Flags) Connect() (*clients.Set, error) {
	config, err := f.rest()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.QPS, f.Burst
	config.UserAgent = "usher/" + cli.BuildVersion().Version
	return clients.Connect(config)
}

func (f *Flags) rest() (*rest.Config, error) {
	if f.InCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("use the cluster of this pod: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: f.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: f.Context},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %s: %w", f.Kubeconfig, err)
	}
	return config, nil
}

// Find returns how to reach the cluster of a kubeconfig. Without one it is what kubectl would
// use, or the cluster of this pod.
func Find(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig != "" {
		if _, err := os.Stat(kubeconfig); err != nil {
			return nil, fmt.Errorf("find cluster: --kubeconfig: %w", err)
		}
	}
	found := configOf(kubeconfig, context)
	config, err := found.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("find cluster: there is no kubeconfig%s: name one with --kubeconfig, or in the environment variable KUBECONFIG", missing(found.ConfigAccess()))
	case err != nil:
		return nil, fmt.Errorf("find cluster: %w", err)
	}
	config.UserAgent = "usher/" + cli.BuildVersion().Version
	// As kubectl has it. client-go's own limit makes commands wait, and say so.
	config.QPS, config.Burst = 50, 300
	if name := nameOf(found, context); name != "" {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &named{next, name} })
	}
	return config, nil
}

// nameOf says which cluster a kubeconfig leads to; empty if that is the one of this pod.
func nameOf(found clientcmd.ClientConfig, context string) string {
	raw, err := found.RawConfig()
	if err != nil {
		return ""
	}
	name := cmp.Or(context, raw.CurrentContext)
	of := raw.Contexts[name]
	if of == nil {
		return ""
	}
	return fmt.Sprintf("context %s of %s", name, of.LocationOfOrigin)
}

// A named sends requests to a cluster, and says which one it is if that does not answer: users have several.
type named struct {
	http.RoundTripper

	name string
}

// RoundTrip implements [http.RoundTripper].
func (n *named) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	if err != nil && r.Context().Err() == nil {
		err = fmt.Errorf("%w (%s)", err, n.name)
	}
	return response, err
}

// WrappedRoundTripper implements [net.RoundTripperWrapper] of apimachinery, which finds the TLS configuration and the
// connections to close below.
func (n *named) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

// configOf returns a context of a kubeconfig, of which nothing is read yet.
func configOf(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// NamespaceOf returns the namespace of a context of a kubeconfig, as kubectl has it.
func NamespaceOf(kubeconfig, context string) string {
	namespace, _, err := configOf(kubeconfig, context).Namespace()
	if err != nil {
		return "default"
	}
	return namespace
}

// ContextOf returns the name of a context of a kubeconfig: the one that is named, or the current one.
func ContextOf(kubeconfig, context string) string {
	raw, err := configOf(kubeconfig, context).RawConfig()
	if err != nil {
		return context
	}
	return cmp.Or(context, raw.CurrentContext)
}

// ServerOf returns the URL of the API of a server of Usher outside of the cluster, and the file with the CA certificates to
// trust for it, as a kubeconfig names them beside the address of the cluster: in the extension usher.dev. Both are empty
// without one. The path of a file is relative to the kubeconfig.
func ServerOf(kubeconfig, context string) (server, caFile string, err error) {
	raw, err := configOf(kubeconfig, context).RawConfig()
	if err != nil {
		return "", "", nil //nolint:nilerr // Who needs the kubeconfig says what is wrong with it.
	}
	of := raw.Contexts[cmp.Or(context, raw.CurrentContext)]
	if of == nil || raw.Clusters[of.Cluster] == nil || raw.Clusters[of.Cluster].Extensions["usher.dev"] == nil {
		return "", "", nil
	}
	var named struct {
		Server string `json:"server"`
		CAFile string `json:"certificate-authority"`
	}
	encoded, err := json.Marshal(raw.Clusters[of.Cluster].Extensions["usher.dev"])
	if err == nil {
		err = json.Unmarshal(encoded, &named)
	}
	if err != nil {
		return "", "", fmt.Errorf("read extension usher.dev of cluster %s in %s: %w", of.Cluster, of.LocationOfOrigin, err)
	}
	if named.CAFile != "" && !filepath.IsAbs(named.CAFile) {
		named.CAFile = filepath.Join(filepath.Dir(of.LocationOfOrigin), named.CAFile)
	}
	return named.Server, named.CAFile, nil
}

// missing names the kubeconfigs that are looked for, and that do not exist.
func missing(rules clientcmd.ConfigAccess) string {
	var files []string
	for _, file := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	switch {
	case len(files) == 0:
		return ""
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		return ": KUBECONFIG names " + strings.Join(files, " and ") + ", which does not exist"
	}
	return ": " + strings.Join(files, " and ") + " does not exist"
}
