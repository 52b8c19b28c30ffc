// Package server has webhook servers to compare with: upstream's own handlers, which show
// that the suite can be passed here, and one that allows everything, which shows that it
// can be failed. They are called like Kubernetes' sample server, agnhost.
package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// readHeaderTimeout is generous: the only client is an API server on this machine.
const readHeaderTimeout = 10 * time.Second

// tlsFlags are the flags of the sample server.
type tlsFlags struct {
	cert, key string
	port      int
}

func (f *tlsFlags) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.cert, "tls-cert-file", "", "serving certificate")
	flags.StringVar(&f.key, "tls-private-key-file", "", "key of the certificate")
	flags.IntVar(&f.port, "port", 443, "port on 127.0.0.1")
	flags.IntP("v", "v", 0, "accepted and not used")
}

// serve serves until the process is ended.
func (f *tlsFlags) serve(handler *http.ServeMux) error {
	handler.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	s := &http.Server{
		Addr:              fmt.Sprintf("127.0.0.1:%d", f.port),
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
	}
	if err := s.ListenAndServeTLS(f.cert, f.key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// command makes a subcommand of the sample server that serves a handler.
func command(name string, handler func() *http.ServeMux) *cobra.Command {
	flags := &tlsFlags{}
	c := &cobra.Command{
		Use:  name,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return flags.serve(handler()) },
	}
	flags.bind(c)
	return c
}
