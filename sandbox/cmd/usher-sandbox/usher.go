package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/sandbox/internal/apiserver"
	"github.com/usher-dev/usher/sandbox/internal/cluster"
	"github.com/usher-dev/usher/sandbox/internal/kubeconfig"
	"github.com/usher-dev/usher/sandbox/internal/port"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// usherOptions holds the flags of up that start usher as well.
type usherOptions struct {
	with     bool
	plugin   bool
	binary   string
	crds     string
	policies []string
	args     []string
	// authorizes says that API servers ask usher to authorize requests, too.
	authorizes bool
}

func (o *usherOptions) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&o.with, "with-usher", false, "start usher serve as well, with its CRDs, the audit and the API of its own, and register its webhooks")
	flags.BoolVar(&o.plugin, "plugin", false, "run Usher as an admission plugin of kube-apiserver, with policies from --policies or else from the cluster")
	flags.StringArrayVar(&o.policies, "policies", nil, "with --plugin: file or folder with policies; with --with-usher: besides those in the cluster (repeatable)")
	flags.StringVar(&o.binary, "usher-bin", "", "with --with-usher: path of usher (default: $USHER_BIN, bin/usher, or that on the PATH)")
	flags.StringVar(&o.crds, "crds", "", "with --with-usher, or --plugin without --policies: folder of its CRDs (default: deploy/crds here, or beside the folder of usher)")
	flags.BoolVar(&o.authorizes, "authorization", false, "with --with-usher: also have API servers ask usher to authorize requests")
	flags.StringArrayVar(&o.args, "usher-arg", nil, "with --with-usher: flag for usher serve, such as --log-level=debug (repeatable)")
}

// complete finds the required files before anything is started.
func (o *usherOptions) complete() error {
	if !o.with && (o.binary != "" || len(o.args) > 0 || o.authorizes) {
		return errors.New("--usher-bin, --usher-arg and --authorization are of use with --with-usher only")
	}
	if !o.with && !o.plugin && (o.crds != "" || len(o.policies) > 0) {
		return errors.New("--policies and --crds are of use with --plugin or --with-usher only")
	}
	for i, path := range o.policies {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("load policies: %w", err)
		}
		var err error
		if o.policies[i], err = filepath.Abs(path); err != nil {
			return fmt.Errorf("load policies: %w", err)
		}
	}
	var err error
	if o.with {
		if o.binary, err = usher.FindBinary(o.binary); err != nil {
			return err
		}
	}
	if o.with || o.plugin && len(o.policies) == 0 {
		o.crds, err = usher.FindCRDs(o.crds, o.binary)
	}
	return err
}

// inProcess returns the plugin to run; nil if the flags request none.
func (o *usherOptions) inProcess() *apiserver.Plugin {
	if !o.plugin {
		return nil
	}
	return &apiserver.Plugin{Policies: o.policies}
}

// authorize has API servers ask usher to authorize requests, if the flags say so. What it writes is in the folder of the
// sandbox.
func (o *usherOptions) authorize(ctx context.Context, config *cluster.Config) error {
	switch {
	case !o.authorizes:
		return nil
	case config.Dir == "":
		return errors.New("--authorization needs a folder that is known before the start: name one with --dir")
	case config.APIServer.AuthorizationConfig != "":
		return errors.New("--authorization writes an AuthorizationConfiguration: leave out --authorization-config, or --authorization")
	}
	dir, err := filepath.Abs(filepath.Join(config.Dir, "usher"))
	if err != nil {
		return fmt.Errorf("configure authorization: %w", err)
	}
	file, flags, err := usher.Authorization(ctx, o.binary, dir)
	config.APIServer.AuthorizationConfig, o.args = file, append(flags, o.args...)
	return err
}

// served is the usher process that up has started; nil if the flags request none.
type served struct {
	process *usher.Process
	// api is the URL of its API, if it serves one.
	api string
}

// usherState describes usher to other programs.
type usherState struct {
	URL     string `json:"url"`
	API     string `json:"api,omitempty"`
	Metrics string `json:"metrics"`
	Log     string `json:"log"`
	PID     int    `json:"pid"`
	// Script starts it again when it has ended.
	Script string `json:"script"`
}

func (o *usherOptions) start(ctx context.Context, state cluster.State) (*served, error) {
	if !o.with && o.crds == "" {
		return nil, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("start usher: %w", err)
	}
	if !o.with {
		return nil, usher.InstallCRDs(ctx, config, o.crds)
	}
	if err := usher.Install(ctx, config, o.crds); err != nil {
		return nil, err
	}
	number, err := port.Free()
	if err != nil {
		return nil, err
	}
	args := append([]string{"--audit", "--api-address=127.0.0.1:" + number}, o.args...)
	process, err := usher.Start(usher.Config{
		Binary:     o.binary,
		Kubeconfig: state.Kubeconfig,
		Policies:   o.policies,
		Dir:        filepath.Join(state.Dir, "usher"),
		Args:       args,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(process.WaitReady(ctx), process.WaitRegistered(ctx, config)); err != nil {
		process.Stop()
		return nil, err
	}
	s := &served{process: process}
	if address := lastOf(args, "--api-address"); address != "" {
		s.api = "https://" + address
		if err := kubeconfig.NameUsher(state.Kubeconfig, s.api, process.CAFile()); err != nil {
			process.Stop()
			return nil, err
		}
	}
	return s, nil
}

// lastOf returns the value that a flag has in arguments: the last one.
func lastOf(args []string, flag string) string {
	value := ""
	for i, arg := range args {
		if name, text, ok := strings.Cut(arg, "="); ok && name == flag {
			value = text
		} else if arg == flag && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

func (s *served) stop() {
	if s != nil {
		s.process.Stop()
	}
}

// watch says so when usher ends by itself. The cluster goes on: what it does without usher can be tried.
func (s *served) watch(ctx context.Context, messages io.Writer) {
	if s == nil {
		return
	}
	if err := s.process.Wait(ctx); err != nil {
		fmt.Fprintf(messages, "%v. The cluster goes on. To start it again: %s\n", err, s.process.Script)
	}
}

func (s *served) state() *usherState {
	if s == nil {
		return nil
	}
	return &usherState{URL: s.process.URL, API: s.api, Metrics: s.process.Metrics, Log: s.process.Log, PID: s.process.PID, Script: s.process.Script}
}

func (s *served) describe() string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("Usher, process %d, serves %s and is registered; its log is %s.\n", s.process.PID, s.process.URL, s.process.Log)
	if s.api != "" {
		text += fmt.Sprintf("The kubeconfig names its API for usher audit, watch, status and console; with another one: --server %s --ca-file %s\n", s.api, s.process.CAFile())
	}
	return text
}
