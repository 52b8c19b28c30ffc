package enforce

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/internal/serve"
)

// authorizationFlags configure the authorization webhooks.
type authorizationFlags struct {
	config serve.Authorization
	// anonymous accepts callers without credentials.
	anonymous bool
}

func (f *authorizationFlags) register(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.Address, "authorization-address", "", "IP address and port on which to serve authorization webhooks, such as 127.0.0.1:8444 (default: disabled)")
	flags.StringVar(&c.Callers.ClientCAFile, "authorization-client-ca-file", "", "PEM file with CA certificates; authorization clients must present a certificate that one of them signed, with one of the names in --authorization-client-names")
	flags.StringSliceVar(&c.Callers.ClientNames, "authorization-client-names", nil, "common names, DNS names and URIs of the API servers that may request authorization")
	flags.StringVar(&c.Callers.TokenFile, "authorization-token-file", "", "file with bearer tokens, one per line; authorization clients must send one of them")
	flags.BoolVar(&f.anonymous, "authorization-anonymous", false, "accept authorization requests from any client that can reach --authorization-address")
	flags.DurationVar(&c.Requests.Timeout, "authorization-timeout", 500*time.Millisecond, "timeout of an authorization decision; API servers can request a shorter one")
	flags.IntVar(&c.Requests.MaxInFlight, "authorization-max-in-flight", 1000, "maximum number of concurrent decisions for each authorization endpoint; excess requests get 503")
	flags.StringVar(&c.Self, "authorization-self", "", "user name of this server at its API server; policies never keep it from reading policies")
	flags.BoolVar(&c.Shadow, "authorization-shadow", false, "always answer NoOpinion; log and count the decisions that would have been made")
}

// complete returns nil if authorization webhooks are not served.
func (f *authorizationFlags) complete(given func(flag string) bool) (*serve.Authorization, error) {
	c := f.config
	if c.Address == "" {
		for _, flag := range []string{"client-ca-file", "client-names", "token-file", "anonymous", "timeout", "max-in-flight", "self", "shadow"} {
			if given("authorization-" + flag) {
				return nil, fmt.Errorf("--authorization-%s needs --authorization-address", flag)
			}
		}
		return nil, nil
	}
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("--authorization-address %s: expected an IP address and a port, such as 127.0.0.1:8444", c.Address)
	}
	switch proven := c.Callers.Guarded(); {
	case (c.Callers.ClientCAFile == "") != (len(c.Callers.ClientNames) == 0):
		return nil, errors.New("--authorization-client-ca-file and --authorization-client-names come together: a CA of a cluster vouches for every node, too")
	case !proven && !f.anonymous:
		return nil, errors.New("--authorization-address: say who may ask with --authorization-client-ca-file and --authorization-client-names, or with --authorization-token-file; or let everybody, with --authorization-anonymous")
	case proven && f.anonymous:
		return nil, errors.New("--authorization-anonymous contradicts --authorization-client-ca-file and --authorization-token-file")
	case c.Requests.Timeout <= 0:
		return nil, errors.New("--authorization-timeout must be more than 0")
	case c.Requests.MaxInFlight <= 0:
		return nil, errors.New("--authorization-max-in-flight must be more than 0")
	}
	return &c, nil
}
