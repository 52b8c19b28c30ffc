// Package usher runs `usher serve` against a cluster, as a process of its own.
package usher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/usher-dev/usher/sandbox/internal/port"
)

// Namespace is the namespace of usher's Leases and Secrets.
const Namespace = "usher-system"

// certificatesFolder is the one of the certificate, in the folder of usher.
const certificatesFolder = "certificates"

// stopGrace is how long the process may take to finish requests in flight.
const stopGrace = 5 * time.Second

// pollEvery is the interval of polling while waiting.
const pollEvery = 25 * time.Millisecond

// lastBytes is how much of the log is read for its last line.
const lastBytes = 4 << 10

// A Config configures usher.
type Config struct {
	// Binary is the path of usher.
	Binary string
	// Kubeconfig is the kubeconfig of the cluster; empty means that usher uses no cluster and is
	// not registered.
	Kubeconfig string
	// Policies are files and folders with policies besides those in the cluster.
	Policies []string
	// Service, if set, is the Service under which replicas in [Namespace] are registered; they
	// share a certificate in a Secret. Otherwise usher is registered by its address, with a
	// certificate of its own.
	Service string
	// Dir keeps the certificate and the log.
	Dir string
	// Args are additional flags of `usher serve`; they take precedence over those that this package
	// sets.
	Args []string
	// Env are additional variables of its environment, such as "GOMEMLIMIT=256MiB".
	Env []string
}

// A Process is a running usher.
type Process struct {
	// URL is where it serves webhooks, Metrics where it serves metrics.
	URL, Metrics string
	Log          string
	PID          int
	// Script starts it, also again, at the same address; a file pid beside it has the number of the process.
	Script string

	dir     string
	env     []string
	command *exec.Cmd
	done    chan struct{}
	err     error
}

// Start runs usher; it does not wait until it is ready.
func Start(config Config) (*Process, error) {
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start usher: %w", err)
	}
	webhooks, err := port.Free()
	if err != nil {
		return nil, err
	}
	metrics, err := port.Free()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("start usher: %w", err)
	}
	p := &Process{
		Script:  filepath.Join(dir, "start"),
		env:     append(os.Environ(), config.Env...),
		URL:     "https://127.0.0.1:" + webhooks,
		Metrics: "http://127.0.0.1:" + metrics + "/metrics",
		Log:     filepath.Join(dir, "usher.log"),
		dir:     filepath.Join(dir, certificatesFolder),
	}
	args := []string{"serve", "--port", webhooks, "--metrics-bind-address", "127.0.0.1:" + metrics}
	switch cluster := []string{"--kubeconfig", config.Kubeconfig, "--namespace", Namespace}; {
	case config.Kubeconfig == "":
		args = append(args, "--cert-dir", p.dir)
	case config.Service != "":
		args = append(append(args, cluster...), "--service", config.Service, "--cert-secret", config.Service+"-certificate")
	default:
		args = append(append(args, cluster...), "--webhook-url", p.URL, "--cert-dir", p.dir)
	}
	for _, path := range config.Policies {
		args = append(args, "--policies", path)
	}
	if err := p.write(append([]string{config.Binary}, append(args, config.Args...)...)); err != nil {
		return nil, fmt.Errorf("start usher: %w", err)
	}
	return p, p.Restart()
}

// write writes the script, which becomes the command, so that the process is the same.
func (p *Process) write(command []string) error {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = quote(word)
	}
	pid, log := quote(filepath.Join(filepath.Dir(p.Script), "pid")), quote(p.Log)
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s\nexec %s >> %s 2>&1\n", pid, strings.Join(quoted, " "), log)
	return os.WriteFile(p.Script, []byte(script), 0o700)
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Restart starts a stopped usher again, at the same address.
func (p *Process) Restart() error {
	p.done = make(chan struct{})
	// By name of the shell: a script that was just written cannot be executed while a child of another
	// goroutine has it open, too.
	p.command = exec.Command("/bin/sh", p.Script)
	p.command.Env = p.env
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start usher: %w", err)
	}
	p.PID = p.command.Process.Pid
	go func(command *exec.Cmd, done chan struct{}) {
		p.err = command.Wait()
		close(done)
	}(p.command, p.done)
	return nil
}

// WaitReady waits until usher says that it is ready.
func (p *Process) WaitReady(ctx context.Context) error {
	return p.await(ctx, "usher to be ready", func() error {
		client, err := p.Client()
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", response.Status, text)
		}
		return nil
	})
}

// await calls check until it returns nil, usher exits or ctx is done.
func (p *Process) await(ctx context.Context, what string, check func() error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("wait for %s: %w", what, p.ended())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w: see %s", what, ctx.Err(), err, p.Log)
		case <-ticker.C:
		}
	}
}

// Client returns an HTTP client that trusts usher's CA if that is in a file. If replicas share a
// certificate, there is no file, and the client trusts any server on the loopback address.
func (p *Process) Client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	ca, err := p.CA()
	switch {
	case errors.Is(err, os.ErrNotExist):
		config.InsecureSkipVerify = true
	case err != nil:
		return nil, fmt.Errorf("read CA of usher: %w", err)
	default:
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(ca)
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}, nil
}

// CA returns the CA of usher's certificate. It fails if replicas share a certificate, because there
// is no file.
func (p *Process) CA() ([]byte, error) { return os.ReadFile(p.CAFile()) }

// CAFile returns the path of the CA's file.
func (p *Process) CAFile() string { return filepath.Join(p.dir, "ca.crt") }

// Wait blocks until usher exits by itself, which is an error, or ctx is done.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.ended()
	case <-ctx.Done():
		return nil
	}
}

// ended returns why usher ended, as its log says.
func (p *Process) ended() error {
	last, how := "", "by itself"
	if text, err := os.ReadFile(p.Log); err == nil {
		lines := strings.Split(strings.TrimSpace(string(text[max(0, len(text)-lastBytes):])), "\n")
		last = lines[len(lines)-1]
	}
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("usher ended: %s: its log %s ends with: %s", how, p.Log, last)
}

// Stop stops usher gracefully, and kills it if that takes too long.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		p.Kill()
	}
}

// Kill kills usher, like a crash.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.done
}
