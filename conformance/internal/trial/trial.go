// Package trial runs specs of the suite against a webhook server, on a control plane of
// their own: the sandbox, with a node that runs the server in place of upstream's sample
// server.
package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/usher-dev/usher/conformance/internal/kubectl"
	"github.com/usher-dev/usher/conformance/internal/node"
	"github.com/usher-dev/usher/conformance/internal/sandbox"
	"github.com/usher-dev/usher/conformance/internal/spec"
)

// sampleServer is the image that the suite deploys.
const sampleServer = "agnhost"

// A Trial is some specs against one server.
type Trial struct {
	// Server stands in for the sample server.
	Server node.Program
	Specs  []spec.Spec
	// Sandbox is the path of usher-sandbox.
	Sandbox string
	// Runner runs the suite, in a process of its own: it is given kubeconfig, kubectl, a
	// folder for logs, and the texts of the specs, and writes results to the file that is
	// opened as number 3.
	Runner []string
	// Dir takes everything that is left of the trial. What was there is removed.
	Dir string
}

// Run runs the specs one after the other, and reports each when it has ended. An error means
// that there are specs without a result, or that the server ended by itself.
func (t *Trial) Run(ctx context.Context, report func(spec.Result)) error {
	if err := t.run(ctx, report); err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, t.Dir)
	}
	return nil
}

func (t *Trial) run(ctx context.Context, report func(spec.Result)) error {
	if err := t.folders(); err != nil {
		return err
	}
	network, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("make service network: %w", err)
	}
	defer network.Close()
	cluster, err := sandbox.Start(ctx, sandbox.Options{
		Binary:  t.Sandbox,
		Dir:     filepath.Join(t.Dir, "sandbox"),
		Network: network.Addr().String(),
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	machine := node.New(node.Options{
		Client:   cluster.Client,
		Programs: map[string]node.Program{sampleServer: t.Server},
		Volumes:  t.path("volumes"),
		Logs:     t.path("servers"),
	})
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	parts.Go(func() { fail(machine.Run(ctx)) })
	parts.Go(func() { fail(machine.ServeNetwork(ctx, network)) })
	err = t.suite(ctx, cluster.Kubeconfig, report)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

func (t *Trial) path(name string) string { return filepath.Join(t.Dir, name) }

// ServerLogs are the files with what servers printed for a spec.
func (t *Trial) ServerLogs(result spec.Result) []string {
	var logs []string
	for _, namespace := range result.Namespaces {
		path := filepath.Join(t.path("servers"), namespace+".log")
		if _, err := os.Stat(path); err == nil {
			logs = append(logs, path)
		}
	}
	return logs
}

// folders makes what a trial needs on disk: folders, and a kubectl.
func (t *Trial) folders() error {
	err := os.RemoveAll(t.Dir)
	for _, name := range []string{"specs", "servers", "volumes"} {
		err = errors.Join(err, os.MkdirAll(t.path(name), 0o755))
	}
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("make kubectl: %w", err)
	}
	if err := os.Symlink(self, t.path(kubectl.Name)); err != nil {
		return fmt.Errorf("make kubectl: %w", err)
	}
	return nil
}

// suite runs the specs in a process of their own and passes their results on.
func (t *Trial) suite(ctx context.Context, kubeconfig string, report func(spec.Result)) error {
	results, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("run suite: %w", err)
	}
	defer results.Close()
	args := append(slices.Clone(t.Runner[1:]), "--kubeconfig="+kubeconfig, "--kubectl="+t.path(kubectl.Name), "--logs="+t.path("specs"))
	for _, s := range t.Specs {
		args = append(args, s.Text)
	}
	log, err := os.Create(t.path("suite.log"))
	if err != nil {
		return fmt.Errorf("run suite: %w", errors.Join(err, write.Close()))
	}
	defer log.Close()
	command := exec.CommandContext(ctx, t.Runner[0], args...)
	command.Stdout, command.Stderr, command.ExtraFiles = log, log, []*os.File{write}
	err = command.Start()
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("run suite: %w", err)
	}
	for lines := bufio.NewScanner(results); lines.Scan(); {
		var result spec.Result
		if err = json.Unmarshal(lines.Bytes(), &result); err != nil {
			break
		}
		report(result)
	}
	if err := errors.Join(err, command.Wait()); err != nil {
		return fmt.Errorf("run suite: %w", err)
	}
	return nil
}
