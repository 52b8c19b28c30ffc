package enforce

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/internal/serve"
)

// apiFlags configure the server's own API.
type apiFlags struct{ config serve.API }

func (f *apiFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config.Address, "api-address", "", "IP address and port at which to serve the API of the server itself, such as 127.0.0.1:8445 (default: disabled)")
	flags.StringSliceVar(&f.config.Audiences, "api-audiences", []string{"usher.dev"}, "audiences of which a bearer token must have one to be accepted at --api-address, as in 'kubectl create token NAME --audience usher.dev'")
}

// complete returns nil if the API is not served.
func (f *apiFlags) complete(given func(flag string) bool, cluster bool) (*serve.API, error) {
	c := f.config
	if c.Address == "" {
		if given("api-audiences") {
			return nil, errors.New("--api-audiences needs --api-address")
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
	return &c, nil
}
