// Package cluster assembles a sandbox: certificates, etcd, API servers, controllers.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/klog/v2"

	"github.com/usher-dev/usher/sandbox/internal/apiserver"
	"github.com/usher-dev/usher/sandbox/internal/controllers"
	"github.com/usher-dev/usher/sandbox/internal/etcd"
	"github.com/usher-dev/usher/sandbox/internal/kubeconfig"
	"github.com/usher-dev/usher/sandbox/internal/pki"
)

// A Config configures a sandbox.
type Config struct {
	// Dir keeps certificates, data and logs; empty means a folder that is removed at the end. A
	// sandbox that starts on a kept folder reuses its data, and its port if that is free.
	Dir string
	// Join is the folder of a running sandbox: only API servers are started, on the etcd of that
	// sandbox.
	Join string
	Port int
	// Replicas is the number of API servers; 0 means one.
	Replicas int
	// Controllers are the controllers to run; without any, the ServiceAccount admission plugin is
	// disabled, too.
	Controllers []string
	APIServer   apiserver.Config
}

// A State describes a running sandbox to other programs. It is written to sandbox.json
// in the sandbox's folder.
type State struct {
	Kubeconfig string   `json:"kubeconfig"`
	Servers    []string `json:"servers"`
	CA         string   `json:"ca"`
	PKI        string   `json:"pki"`
	Etcd       string   `json:"etcd"`
	Dir        string   `json:"dir"`
	Log        string   `json:"log"`
	PID        int      `json:"pid"`
}

// A Cluster is a running sandbox.
type Cluster struct {
	State State

	servers []*apiserver.Server
	etcd    *etcd.Server
	// controllers receives the reason why the controllers stopped; nil if there are none.
	controllers <-chan error
	cancel      context.CancelFunc
	remove      []string
}

// Start runs a sandbox and returns when an administrator can use it.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &Cluster{cancel: cancel}
	if err := c.start(ctx, config); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, config Config) error {
	if err := c.folders(config); err != nil {
		return err
	}
	certificates, err := pki.Ensure(c.State.PKI)
	if err != nil {
		return err
	}
	if c.State.Etcd == "" {
		socketDir, err := c.socketFolder()
		if err != nil {
			return err
		}
		if c.etcd, err = etcd.Start(ctx, filepath.Join(c.State.Dir, "etcd"), socketDir, filepath.Join(c.State.Dir, "etcd.log")); err != nil {
			return err
		}
		c.State.Etcd = c.etcd.Endpoint
	}
	if err := c.serve(ctx, config, certificates); err != nil {
		return err
	}
	admin, err := certificates.Client("sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := kubeconfig.Write(c.State.Kubeconfig, c.State.Servers[0], certificates.CA(), admin); err != nil {
		return err
	}
	if len(config.Controllers) > 0 && config.Join == "" {
		c.controllers, err = controllers.Start(ctx, controllers.Config{
			Kubeconfig:  c.State.Kubeconfig,
			PKI:         certificates,
			Controllers: config.Controllers,
			Dir:         filepath.Join(c.State.Dir, "flex"),
			Ready:       func(ctx context.Context) error { return c.servers[0].WaitReady(ctx, apiserver.All) },
		})
		if err != nil {
			return err
		}
	}
	return c.save(config)
}

// socketFolder returns the sandbox's own folder, unless the path of a socket in it would be too
// long.
func (c *Cluster) socketFolder() (string, error) {
	if etcd.Fits(c.State.Dir) {
		return c.State.Dir, nil
	}
	dir, err := os.MkdirTemp("", "usher")
	if err != nil {
		return "", fmt.Errorf("make folder for the socket of etcd: %w", err)
	}
	c.remove = append(c.remove, dir)
	return dir, nil
}

func (c *Cluster) serve(ctx context.Context, config Config, certificates *pki.PKI) error {
	for replica := range max(config.Replicas, 1) {
		server := config.APIServer
		server.Etcd, server.PKI = c.State.Etcd, certificates
		server.WithoutServiceAccounts = len(config.Controllers) == 0
		if replica == 0 {
			server.Port = config.Port
			if server.Port == 0 && config.Join == "" {
				server.Port = lastPort(c.State.Dir)
			}
		}
		started, err := apiserver.Start(ctx, server)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, started)
		c.State.Servers = append(c.State.Servers, started.URL)
	}
	for _, server := range c.servers {
		if err := server.WaitReady(ctx, apiserver.Usable); err != nil {
			return fmt.Errorf("%w: see %s", err, c.State.Log)
		}
	}
	return nil
}

// folders sets the paths of all files and sends the logs of all components to a file.
func (c *Cluster) folders(config Config) error {
	if config.Join != "" {
		running, err := Load(config.Join)
		if err != nil {
			return err
		}
		c.State.Etcd, c.State.PKI = running.Etcd, running.PKI
	}
	dir, err := c.folder(config.Dir)
	if err != nil {
		return err
	}
	if c.State.PKI == "" {
		c.State.PKI = filepath.Join(dir, "pki")
	}
	c.State.Dir = dir
	c.State.CA = filepath.Join(c.State.PKI, "ca.crt")
	c.State.Kubeconfig = filepath.Join(dir, "kubeconfig")
	c.State.Log = filepath.Join(dir, "sandbox.log")
	c.State.PID = os.Getpid()
	log, err := os.OpenFile(c.State.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	return logTo(log)
}

// folder creates the folder dir, or a temporary one.
func (c *Cluster) folder(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "usher-sandbox")
		if err != nil {
			return "", fmt.Errorf("make folder: %w", err)
		}
		c.remove = append(c.remove, dir)
		return dir, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return dir, nil
}

// logTo sends the logs of the components to a file. klog's own default copies errors to standard
// error as well.
func logTo(log *os.File) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL"}); err != nil {
		return fmt.Errorf("set up log: %w", err)
	}
	klog.SetOutput(log)
	return nil
}

func (c *Cluster) save(config Config) error {
	if config.Join != "" {
		return nil
	}
	text, err := json.Marshal(c.State)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.State.Dir, "sandbox.json"), text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// Load reads the state of the sandbox in dir.
func Load(dir string) (State, error) {
	var state State
	text, err := os.ReadFile(filepath.Join(dir, "sandbox.json"))
	if err != nil {
		return state, fmt.Errorf("read sandbox in %s: %w", dir, err)
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return state, fmt.Errorf("read sandbox in %s: %w", dir, err)
	}
	return state, nil
}

// lastPort returns the port of the previous sandbox in dir, if it is free.
func lastPort(dir string) int {
	state, err := Load(dir)
	if err != nil || len(state.Servers) == 0 {
		return 0
	}
	last, err := url.Parse(state.Servers[0])
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(last.Port())
	if err != nil {
		return 0
	}
	probe, err := net.Listen("tcp", last.Host)
	if err != nil {
		return 0
	}
	_ = probe.Close()
	return port
}

// WaitReady waits until every readiness check of every API server passes.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, server := range c.servers {
		if err := server.WaitReady(ctx, apiserver.All); err != nil {
			return err
		}
	}
	return nil
}

// Wait blocks until ctx is done, or an API server or the controllers stop by themselves.
func (c *Cluster) Wait(ctx context.Context) error {
	ended := make(chan error, len(c.servers))
	for _, server := range c.servers {
		go func() { ended <- errors.Join(errors.New("kube-apiserver ended"), server.Wait()) }()
	}
	select {
	case err := <-ended:
		return err
	case err := <-c.controllers:
		return err
	case <-ctx.Done():
		return nil
	}
}

// stopGrace is how long the API servers, and after them etcd, may take to stop.
const stopGrace = 3 * time.Second

// Stop stops everything and removes temporary files.
func (c *Cluster) Stop() {
	c.cancel()
	within(stopGrace, func() {
		for _, server := range c.servers {
			server.Stop()
		}
	})
	if c.etcd != nil {
		within(stopGrace, c.etcd.Stop)
	}
	for _, dir := range c.remove {
		_ = os.RemoveAll(dir)
	}
}

// within runs stop and stops waiting for it after the grace period, because the process is about to
// exit.
func within(grace time.Duration, stop func()) {
	done := make(chan struct{})
	go func() {
		stop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
	}
}
