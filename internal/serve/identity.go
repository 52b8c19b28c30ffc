package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/usher-dev/usher/internal/cert"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/deadline"
)

// An identity is the server's certificate, and the file with the CA that clients have to trust.
type identity struct {
	*cert.Serving

	// caFile is empty if the certificate is from a file, without its CA. A temporary one is deleted
	// with the server.
	caFile    string
	temporary bool
}

// newIdentity loads the certificate of the configuration, or issues one.
func newIdentity(ctx context.Context, c Config) (*identity, error) {
	if c.TLS.CertFile != "" {
		serving, err := cert.AwaitFiles(ctx, c.TLS.CertFile, c.TLS.KeyFile, c.TLS.CAFile, c.Log)
		if err != nil {
			return nil, err
		}
		return &identity{Serving: serving, caFile: c.TLS.CAFile}, nil
	}
	if c.Cluster != nil && c.Cluster.CertSecret != "" {
		serving, err := sharedCertificate(ctx, c)
		if err != nil {
			return nil, err
		}
		return &identity{Serving: serving}, nil
	}
	all := hosts(c.Listen.Address)
	if c.Authorization != nil {
		if host, _, err := net.SplitHostPort(c.Authorization.Address); err == nil {
			all = append(all, hosts(host)...)
		}
	}
	if c.Cluster != nil {
		all = append(all, c.Cluster.hosts()...)
	}
	serving, err := cert.SelfSigned(cert.Options{Dir: c.TLS.CertDir, Hosts: all, Log: c.Log})
	if err != nil {
		return nil, err
	}
	return withFile(serving)
}

// withFile returns an identity with the CA of a certificate in a file, which may be temporary.
func withFile(serving *cert.Serving) (*identity, error) {
	if file := serving.CAFile(); file != "" {
		return &identity{Serving: serving, caFile: file}, nil
	}
	file, err := os.CreateTemp("", "usher-ca-*.crt")
	if err != nil {
		return nil, fmt.Errorf("write CA bundle: %w", err)
	}
	i := &identity{Serving: serving, caFile: file.Name(), temporary: true}
	_, err = file.Write(serving.CA())
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		i.close()
		return nil, fmt.Errorf("write CA bundle: %w", err)
	}
	return i, nil
}

// sharedCertificate returns the certificate that replicas share in a Secret.
func sharedCertificate(ctx context.Context, c Config) (serving *cert.Serving, err error) {
	// Every replica must request the same hosts: nothing here may depend on the replica.
	o := cert.Options{Hosts: append(loopback(), c.Cluster.hosts()...), Log: c.Log}
	secrets := c.Cluster.Clients.Kube.CoreV1().Secrets(c.Cluster.Namespace)
	err = c.Cluster.retryWhileUnavailable(ctx, c.Log, func() error {
		serving, err = cert.FromSecret(ctx, secrets, c.Cluster.Namespace, c.Cluster.CertSecret, o)
		return err
	})
	return serving, err
}

// retryWhileUnavailable retries while the API server does not respond: it may be starting, too.
func (c *Cluster) retryWhileUnavailable(ctx context.Context, log *slog.Logger, try func() error) error {
	const most, pause = time.Minute, 2 * time.Second
	until := time.Now().Add(most)
	for {
		err := try()
		if err == nil || !clients.Unavailable(err) || time.Now().After(until) {
			return err
		}
		log.Warn("the API server does not answer yet", "server", c.Clients.Server, "error", err)
		if !deadline.Sleep(ctx, pause) {
			return err
		}
	}
}

func (i *identity) close() {
	if i.temporary {
		_ = os.Remove(i.caFile)
	}
}

// hosts returns the names under which API servers call the webhooks.
func (c *Cluster) hosts() []string {
	r := &c.WebhookConfig
	if r.URL != "" {
		if u, err := url.Parse(r.URL); err == nil && u.Hostname() != "" {
			return []string{u.Hostname()}
		}
		return nil
	}
	if r.Service == "" {
		return nil
	}
	service := r.Service + "." + r.Namespace
	return []string{service + ".svc", service + ".svc.cluster.local", service, r.Service}
}

func loopback() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// hosts returns the names under which clients call a server that listens on address.
func hosts(address string) []string {
	all := loopback()
	ip := net.ParseIP(address)
	switch {
	case ip == nil || ip.IsLoopback() && (address == "127.0.0.1" || address == "::1"):
		return all
	case !ip.IsUnspecified():
		return append(all, address)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		all = append(all, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			all = append(all, network.IP.String())
		}
	}
	return all
}
