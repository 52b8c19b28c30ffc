package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/internal/serve"
)

// defaultNamespace is the one that Usher is installed in if nobody says otherwise.
const defaultNamespace = "usher-system"

// clusterFlags say which cluster a command talks to, and in which namespace Usher is.
type clusterFlags struct {
	kubeconfig, context string
	inCluster           bool
	namespace           string
	qps                 float32
	burst               int
}

func (f *clusterFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	flags.StringVar(&f.context, "context", "", "context of --kubeconfig, if it is not the current one")
	flags.BoolVar(&f.inCluster, "in-cluster", false, "use the cluster that this process runs in, as a pod, with its service account")
	flags.StringVar(&f.namespace, "namespace", "", "namespace of Usher (default: $POD_NAMESPACE, that of the pod, or "+defaultNamespace+")")
	flags.Float32Var(&f.qps, "kube-api-qps", 100, "requests to the API server a second, on average")
	flags.IntVar(&f.burst, "kube-api-burst", 200, "requests to the API server at once")
}

// given reports whether there is a cluster to talk to.
func (f *clusterFlags) given() bool { return f.kubeconfig != "" || f.inCluster }

// complete checks the flags and finds out the namespace.
func (f *clusterFlags) complete() error {
	switch {
	case f.kubeconfig != "" && f.inCluster:
		return errors.New("--kubeconfig and --in-cluster exclude each other")
	case f.context != "" && f.kubeconfig == "":
		return errors.New("--context is one of --kubeconfig")
	case f.qps <= 0 || f.burst <= 0:
		return errors.New("--kube-api-qps and --kube-api-burst must be more than 0")
	}
	f.namespace = cmp.Or(f.namespace, os.Getenv("POD_NAMESPACE"), os.Getenv("NAMESPACE"))
	if f.namespace == "" && f.inCluster {
		// Not to be able to read it means that it is not there.
		mounted, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		f.namespace = strings.TrimSpace(string(mounted))
	}
	f.namespace = cmp.Or(f.namespace, defaultNamespace)
	return nil
}

// connect makes clients; it does not talk to the API server yet.
func (f *clusterFlags) connect() (*serve.Clients, error) {
	config, err := f.rest()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.UserAgent = "usher/" + buildVersion().Version
	return serve.Connect(config)
}

func (f *clusterFlags) rest() (*rest.Config, error) {
	if f.inCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("use the cluster of this pod: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: f.context},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %s: %w", f.kubeconfig, err)
	}
	return config, nil
}
