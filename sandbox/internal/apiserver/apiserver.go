// Package apiserver runs kube-apiserver in this process.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/usher-dev/usher/sandbox/internal/pki"
)

// bootstrapChecks are readiness checks that poll every second; an administrator can work before
// they pass.
var bootstrapChecks = []string{"poststarthook/rbac/bootstrap-roles", "poststarthook/scheduling/bootstrap-system-priority-classes"}

// A Config configures an API server.
type Config struct {
	// Port on 127.0.0.1; 0 chooses a free one.
	Port int
	// Etcd is the etcd endpoint.
	Etcd string
	PKI  *pki.PKI
	// Services maps services that webhooks name to addresses on this machine.
	Services Services
	// AuthorizationConfig and AdmissionConfig are files for the flags
	// --authorization-config and --admission-control-config-file.
	AuthorizationConfig string
	AdmissionConfig     string
	// WithoutServiceAccounts disables the ServiceAccount admission plugin: without controllers no
	// namespace has a default service account.
	WithoutServiceAccounts bool
	// Plugin enables the admission plugin Usher; nil leaves it disabled, unless Args enable it.
	Plugin *Plugin
	// Args are additional flags of kube-apiserver; they take precedence over the sandbox's own.
	Args []string
}

// A Server is a running API server.
type Server struct {
	URL string

	loopback *rest.Config
	stop     context.CancelFunc
	done     chan error
}

// Start runs an API server; it does not wait until it is ready.
func Start(ctx context.Context, config Config) (*Server, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", config.Port))
	if err != nil {
		return nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	opts := options.NewServerRunOptions()
	config.Plugin.register(opts)
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(config.flags()); err != nil {
		return nil, fmt.Errorf("parse flags of kube-apiserver: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return nil, fmt.Errorf("start kube-apiserver: %s is not a loopback address", listener.Addr())
	}
	opts.SecureServing.Listener = listener
	opts.SecureServing.BindPort = address.Port
	opts.SecureServing.ExternalAddress = address.IP
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	server := &Server{URL: "https://" + address.String(), stop: stop, done: make(chan error, 1)}
	if err := server.run(ctx, opts, config.Services); err != nil {
		stop()
		return nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	return server, nil
}

func (s *Server) run(ctx context.Context, opts *options.ServerRunOptions, services Services) error {
	completed, err := opts.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	// The resolver is a package variable of the API server, read while the configuration is
	// created; two servers must not set it at the same time.
	reset := app.SetServiceResolverForTests(services)
	config, err := app.NewConfig(completed)
	reset()
	if err != nil {
		return err
	}
	nameVersion(config)
	ready, err := config.Complete()
	if err != nil {
		return err
	}
	chain, err := app.CreateServerChain(ready)
	if err != nil {
		return err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	s.loopback = chain.GenericAPIServer.LoopbackClientConfig
	go func() { s.done <- prepared.Run(ctx) }()
	return nil
}

func (c *Config) flags() []string {
	flags := []string{
		"--etcd-servers=" + c.Etcd,
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + c.PKI.Path("apiserver.crt"),
		"--tls-private-key-file=" + c.PKI.Path("apiserver.key"),
		"--client-ca-file=" + c.PKI.Path("ca.crt"),
		"--service-account-key-file=" + c.PKI.Path("sa.pub"),
		"--service-account-signing-key-file=" + c.PKI.Path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--requestheader-client-ca-file=" + c.PKI.Path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.PKI.Path("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.PKI.Path("front-proxy-client.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		// The advertised address is a loopback address, which endpoints may not have.
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
		"--profiling=false",
	}
	if c.AuthorizationConfig != "" {
		flags = append(flags, "--authorization-config="+c.AuthorizationConfig)
	} else if !slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--authorization-") }) {
		flags = append(flags, "--authorization-mode=RBAC")
	}
	if c.AdmissionConfig != "" {
		flags = append(flags, "--admission-control-config-file="+c.AdmissionConfig)
	}
	if c.WithoutServiceAccounts {
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return append(flags, c.Args...)
}

// WaitReady waits until the given readiness checks of the server pass.
func (s *Server) WaitReady(ctx context.Context, checks Checks) error {
	client, err := rest.HTTPClientFor(s.loopback)
	if err != nil {
		return fmt.Errorf("ask whether kube-apiserver is ready: %w", err)
	}
	query := ""
	if checks == Usable {
		query = "?exclude=" + strings.Join(bootstrapChecks, "&exclude=")
	}
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.loopback.Host+"/readyz"+query, nil)
		if err != nil {
			return fmt.Errorf("ask whether kube-apiserver is ready: %w", err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.done:
			s.done <- err
			return errors.Join(errors.New("kube-apiserver ended before it was ready"), err)
		case <-ctx.Done():
			return fmt.Errorf("wait for kube-apiserver: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// Checks selects the readiness checks that a server must pass.
type Checks int

const (
	// Usable: an administrator can work; RBAC roles may still be missing.
	Usable Checks = iota
	// All checks pass.
	All
)

// Wait blocks until the server has stopped and returns its error.
func (s *Server) Wait() error {
	err := <-s.done
	s.done <- err
	return err
}

// Stop stops the server.
func (s *Server) Stop() {
	s.stop()
	_ = s.Wait()
}
