package apiserver

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Services maps namespace/name, or namespace/name:port, to host:port on this machine. There is no
// service network in a sandbox; the API server dials these addresses for webhooks that name a
// service. The key */* applies to services without a key of their own.
type Services map[string]string

// ParseServices reads mappings of the form namespace/name[:port]=host:port.
func ParseServices(mappings []string) (Services, error) {
	services := Services{}
	for _, mapping := range mappings {
		service, address, ok := strings.Cut(mapping, "=")
		if !ok || strings.Count(service, "/") != 1 || !strings.Contains(address, ":") {
			return nil, fmt.Errorf("parse service %q: write namespace/name[:port]=host:port", mapping)
		}
		services[service] = address
	}
	return services, nil
}

// ResolveEndpoint implements the API server's service resolver.
func (s Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service := namespace + "/" + name
	for _, key := range []string{service + ":" + strconv.Itoa(int(port)), service, "*/*"} {
		if address, ok := s[key]; ok {
			return &url.URL{Scheme: "https", Host: address}, nil
		}
	}
	return nil, fmt.Errorf("resolve service %s:%d: the sandbox has no service network: start it with --service %s=HOST:PORT", service, port, service)
}
