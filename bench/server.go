package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/usher-dev/usher/internal/cert"
)

// A rig is what servers are started with.
type rig struct {
	usher string
	dir   string
	// flags are further ones of usher serve.
	flags []string
	// env is added to their environment.
	env []string
	tls *tls.Config
}

// newRig creates certificates that all servers share, in a new folder.
func newRig(usher string, flags []string) (*rig, error) {
	if _, err := os.Stat(usher); err != nil {
		return nil, fmt.Errorf("find usher: %w (make build)", err)
	}
	dir, err := os.MkdirTemp("", "usher-bench-")
	if err != nil {
		return nil, err
	}
	made, err := cert.SelfSigned(cert.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(made.CA())
	return &rig{usher: usher, dir: dir, flags: flags, tls: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted}}, nil
}

func (r *rig) close() { _ = os.RemoveAll(r.dir) }

// A server is a process that serves webhooks.
type server struct {
	command *exec.Cmd
	url     string
	log     *os.File
}

// start starts the server of a target and waits until it is ready.
func (r *rig) start(ctx context.Context, t target) (*server, error) {
	dir, err := os.MkdirTemp(r.dir, "server-")
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(r.dir, "tls.crt"), filepath.Join(r.dir, "tls.key")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, "reference", t.reference, certFile, keyFile)
	if t.reference == "" {
		if !t.hostile {
			if _, err := rulesIn(t.policies); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(t.policies), 0o600); err != nil {
			return nil, err
		}
		command = exec.Command(r.usher, append([]string{
			"serve", "--policies", dir, "--port", "0", "--metrics-bind-address", "0", "--log-level", "warn",
			"--tls-cert-file", certFile, "--tls-private-key-file", keyFile,
		}, r.flags...)...)
	}
	command.Env = append(os.Environ(), r.env...)
	s := &server{command: command}
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	command.Stderr = s.log
	if err := s.run(ctx, r.tls); err != nil {
		s.stop()
		said, _ := os.ReadFile(s.log.Name())
		return nil, fmt.Errorf("start server for %s: %w: %s", t.name, err, said)
	}
	return s, nil
}

func (s *server) run(ctx context.Context, config *tls.Config) error {
	out, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Serving "); ok {
			s.url, _, _ = strings.Cut(rest, " ")
		}
	}
	if s.url == "" {
		return errors.New("it ended before it said where it is")
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return s.ready(ctx, config)
}

// ready waits until the policies are in force.
func (s *server) ready(ctx context.Context, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			// The references have no /readyz and reject requests without a body.
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusBadRequest {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *server) pid() int { return s.command.Process.Pid }

func (s *server) stop() {
	if s.command.Process != nil {
		_ = s.command.Process.Signal(syscall.SIGKILL)
		_ = s.command.Wait()
	}
	_ = s.log.Close()
}
