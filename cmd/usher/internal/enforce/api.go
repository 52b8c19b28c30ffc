package enforce

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/internal/serve"
)

// apiFlags configure the server's own API.
type apiFlags struct {
	config serve.API
	memory string
}

// The memory of recordings.
const leastRecorded, mostRecorded = 1 << 20, 1 << 30

func (f *apiFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config.Address, "api-address", "", "IP address and port at which to serve the API of the server itself, such as 127.0.0.1:8445 (default: disabled)")
	flags.StringSliceVar(&f.config.Audiences, "api-audiences", []string{"usher.dev"}, "audiences of which a bearer token must have one to be accepted at --api-address, as in 'kubectl create token NAME --audience usher.dev'")
	flags.StringVar(&f.memory, "record-memory", "", "memory for the last requests that were refused, as they came: with their objects, except those that hold credentials, such as Secrets; users who may get recordings.usher.dev read them at --api-address (default: nothing is recorded)")
}

// complete returns nil if the API is not served.
func (f *apiFlags) complete(given func(flag string) bool, cluster bool) (*serve.API, error) {
	c := f.config
	if c.Address == "" {
		if given("api-audiences") {
			return nil, errors.New("--api-audiences needs --api-address")
		}
		if given("record-memory") {
			return nil, errors.New("--record-memory needs --api-address, at which recordings are read")
		}
		return nil, nil
	}
	host, _, err := net.SplitHostPort(c.Address)
	switch {
	case err != nil || net.ParseIP(host) == nil:
		return nil, fmt.Errorf("--api-address %s: expected an IP address and a port, such as 127.0.0.1:8445", c.Address)
	case !cluster:
		return nil, errors.New("--api-address needs a cluster, which knows who may use the API: name it with --kubeconfig or --in-cluster")
	case len(c.Audiences) == 0 || slices.Contains(c.Audiences, ""):
		return nil, errors.New("--api-audiences: name the audiences of tokens, such as usher.dev")
	}
	if !given("record-memory") {
		return &c, nil
	}
	memory, err := resource.ParseQuantity(f.memory)
	if c.Recordings = memory.Value(); err != nil || c.Recordings < leastRecorded || c.Recordings > mostRecorded {
		return nil, fmt.Errorf("--record-memory %s: expected a quantity from 1Mi to 1Gi", f.memory)
	}
	return &c, nil
}
