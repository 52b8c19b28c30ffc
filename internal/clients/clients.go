// Package clients creates the clients of an API server that a server or a command needs, each with the rate limit of
// what causes its requests.
package clients

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/usher-dev/usher/internal/probe"
)

// A Set has the clients of one API server.
type Set struct {
	// Server is its address, for logs.
	Server string
	Kube   kubernetes.Interface
	// Policies reads and patches policies. Facts reads the objects that policies refer to. It has a
	// separate rate limit, so that neither slows down the other.
	Policies, Facts dynamic.Interface
	// Reviews authenticates and authorizes the callers of the server's own API. It has a separate
	// rate limit, because callers control the number of its requests.
	Reviews kubernetes.Interface
	// Readers does the same for callers of the webhook port who read names: anybody who reaches the
	// port controls the number of its requests. It may be nil: nobody is known then.
	Readers kubernetes.Interface
	// Access asks what users may do, for policies that ask. It has a rate limit of its own, since
	// users whose requests are decided control the number of its requests.
	Access kubernetes.Interface
	// Mapper maps kinds by discovery, which it caches until it is reset.
	Mapper meta.ResettableRESTMapper
	// Schemas reads the schemas of kinds; nil if they are not compared with those of this version.
	Schemas openapi.Client
	// Audit reads the objects that are audited, over connections of its own: they are many.
	Audit rest.Interface
	// Probe writes probes over separate connections; nil if no probes are written.
	Probe probe.Writer
	// ProbeClosed is the same for an entry that fails closed.
	ProbeClosed probe.Writer
}

// Connect creates clients. It does not call the API server yet.
func Connect(c *rest.Config) (*Set, error) {
	transport, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	kube, err := kubernetes.NewForConfigAndClient(c, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	asking := rest.CopyConfig(c)
	asking.QPS, asking.Burst = 50, 100
	reviews, err := kubernetes.NewForConfigAndClient(asking, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	reading := rest.CopyConfig(c)
	reading.QPS, reading.Burst = 10, 20
	readers, err := kubernetes.NewForConfigAndClient(reading, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	access, err := kubernetes.NewForConfigAndClient(c, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	policies, err := dynamicFor(c, transport)
	if err != nil {
		return nil, err
	}
	// What policies of one namespace read is limited by who reads it.
	looking := rest.CopyConfig(c)
	looking.QPS, looking.Burst = 200, 400
	facts, err := dynamicFor(looking, transport)
	if err != nil {
		return nil, err
	}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(c, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	probes, connections, err := ownClient(c)
	if err != nil {
		return nil, err
	}
	// Streams limit their requests themselves, and each of the others would wait for a rate limit.
	unlimited := rest.CopyConfig(c)
	unlimited.QPS = -1
	audit, _, err := ownClient(unlimited)
	if err != nil {
		return nil, err
	}
	return &Set{
		Audit:       audit,
		Probe:       probe.Through(probes, connections),
		ProbeClosed: probe.ThroughClosed(probes, connections),
		Server:      c.Host, Kube: kube, Policies: policies, Facts: facts, Reviews: reviews, Readers: readers, Access: access,
		Mapper:  restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover)),
		Schemas: kube.Discovery().OpenAPIV3(),
	}, nil
}

// ownClient creates a client that shares no connections.
func ownClient(c *rest.Config) (rest.Interface, *http.Client, error) {
	own := rest.CopyConfig(c)
	// client-go shares transports among equal configurations.
	own.Dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	connections, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to API server: %w", err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(own, connections)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to API server: %w", err)
	}
	return client, connections, nil
}

func dynamicFor(c *rest.Config, transport *http.Client) (dynamic.Interface, error) {
	client, err := dynamic.NewForConfigAndClient(c, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	return client, nil
}

// Unavailable reports whether an error is temporary: the API server does not respond, or is overloaded.
func Unavailable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	var network net.Error
	// Of a response that was cut off while its body was read, client-go returns the reader's error alone.
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}
