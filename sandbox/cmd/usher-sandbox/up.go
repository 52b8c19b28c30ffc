package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/sandbox/internal/apiserver"
	"github.com/usher-dev/usher/sandbox/internal/cluster"
	"github.com/usher-dev/usher/sandbox/internal/controllers"
)

// startTimeout limits the start; a loaded machine can take a quarter of a minute.
const startTimeout = 90 * time.Second

// options holds the flags of up and run.
type options struct {
	config      cluster.Config
	controllers string
	services    []string
	json        bool
	stdinEOF    bool
}

func (o *options) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.config.Dir, "dir", "", "folder for certificates, data and logs, kept and started from again (default: a temporary one, removed at the end)")
	flags.StringVar(&o.config.Join, "join", "", "folder of a running sandbox: only adds API servers to its etcd")
	flags.IntVar(&o.config.Port, "port", 0, "port on 127.0.0.1 (default: the one used before in --dir, else a free one)")
	flags.IntVar(&o.config.Replicas, "replicas", 1, "number of API servers on the same etcd")
	flags.StringVar(&o.controllers, "controllers", "core", "controllers to run: core, none, or names with commas as kube-controller-manager knows them")
	flags.StringArrayVar(&o.services, "service", nil, "where webhooks find a service: namespace/name[:port]=host:port, or */*=host:port for all others (repeatable)")
	flags.StringVar(&o.config.APIServer.AuthorizationConfig, "authorization-config", "", "file with an AuthorizationConfiguration")
	flags.StringVar(&o.config.APIServer.AdmissionConfig, "admission-control-config-file", "", "file with an AdmissionConfiguration")
	flags.StringArrayVar(&o.config.APIServer.Args, "kube-apiserver-arg", nil, "flag for kube-apiserver, such as --v=4 (repeatable)")
}

// complete turns the flags into a configuration.
func (o *options) complete() (cluster.Config, error) {
	services, err := apiserver.ParseServices(o.services)
	if err != nil {
		return cluster.Config{}, err
	}
	config := o.config
	config.APIServer.Services = services
	for _, arg := range config.APIServer.Args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "bind-address" || name == "secure-port" || name == "advertise-address" {
			return cluster.Config{}, fmt.Errorf("--kube-apiserver-arg %s: a sandbox serves on 127.0.0.1 only; choose the port with --port", arg)
		}
	}
	switch o.controllers {
	case "core":
		config.Controllers = controllers.Core()
	case "none", "":
	default:
		config.Controllers = strings.Split(o.controllers, ",")
	}
	return config, nil
}

func upCommand() *cobra.Command {
	o := &options{}
	var u usherOptions
	command := &cobra.Command{
		Use:   "up",
		Short: "start a sandbox and keep it running",
		Example: `  usher-sandbox up
  usher-sandbox up --dir ~/.cache/sandbox --port 6443
  usher-sandbox up --service usher-system/usher=127.0.0.1:8443
  usher-sandbox up --with-usher --policies policies/
  usher-sandbox up --with-usher --authorization --dir try/both
  usher-sandbox up --plugin --policies policies/`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return up(command.Context(), o, u, os.Stdin, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	o.bind(command)
	u.bind(command)
	command.Flags().BoolVar(&o.json, "json", false, "print one line of JSON when an administrator can work, for programs")
	command.Flags().BoolVar(&o.stdinEOF, "exit-on-stdin-eof", false, "end when standard input is closed, so that a sandbox does not outlive the program that started it")
	return command
}

// report is the output of up with --json.
type report struct {
	cluster.State
	Usher *usherState `json:"usher,omitempty"`
}

func up(ctx context.Context, o *options, u usherOptions, stdin io.Reader, out, messages io.Writer) error {
	began := time.Now()
	config, err := o.complete()
	if err != nil {
		return err
	}
	if err := u.complete(); err != nil {
		return err
	}
	if err := u.authorize(ctx, &config); err != nil {
		return err
	}
	config.APIServer.Plugin = u.inProcess()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.stdinEOF {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	running, err := start(ctx, config)
	if err != nil {
		return err
	}
	defer running.Stop()
	ready, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	if !o.json || u.with {
		if err := running.WaitReady(ready); err != nil {
			return err
		}
	}
	served, err := u.start(ready, running.State)
	if err != nil {
		return err
	}
	defer served.stop()
	if o.json {
		if err := json.NewEncoder(out).Encode(report{State: running.State, Usher: served.state()}); err != nil {
			return fmt.Errorf("print state: %w", err)
		}
	} else {
		fmt.Fprintf(out, `Kubernetes is ready after %.1f s: %s
%s  export KUBECONFIG=%s
  kubectl get namespaces
The log of every component is in %s. Ctrl-C ends it.
`, time.Since(began).Seconds(), strings.Join(running.State.Servers, ", "), served.describe(), running.State.Kubeconfig, running.State.Log)
	}
	go served.watch(ctx, messages)
	return running.Wait(ctx)
}

func start(ctx context.Context, config cluster.Config) (*cluster.Cluster, error) {
	// The components live as long as ctx; only their start has a deadline.
	type result struct {
		cluster *cluster.Cluster
		err     error
	}
	started := make(chan result, 1)
	go func() {
		running, err := cluster.Start(ctx, config)
		started <- result{running, err}
	}()
	select {
	case r := <-started:
		return r.cluster, r.err
	case <-time.After(startTimeout):
		return nil, fmt.Errorf("start sandbox: not ready after %s", startTimeout)
	}
}
