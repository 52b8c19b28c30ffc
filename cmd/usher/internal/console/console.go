// Package console has the command with which policies are tried in a browser.
package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/cmd/usher/internal/write"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

type flags struct {
	folders []string
	port    int
	open    string
	silent  bool
	write   bool
	askHTTP bool
	limits  policies.Limits
	cluster Cluster
}

// A Cluster is what the page shows of a cluster, if flags name one.
type Cluster interface {
	Register(flags *pflag.FlagSet)
	// Complete checks the flags.
	Complete() error
	// Routes returns what the page asks about it.
	Routes(ctx context.Context, attempts *try.Attempter) ([]console.Route, error)
}

// Command returns usher console.
func Command(s cli.Streams, cluster Cluster) *cobra.Command {
	f := flags{cluster: cluster}
	cmd := &cobra.Command{
		Use:        "console [-p FOLDER]",
		SuggestFor: []string{"playground", "ui", "browser", "web"},
		Short:      "Try policies in a browser",
		Long: `Console serves a page on which policies are written and tried: policies, a request, and what
is decided, as you type, with the trace of every rule and the values that decided. It shows what
check, decide, explain, test and import say: nothing is decided in another way.

It listens on the loopback address alone, and opens the browser. The address that it prints opens
the page once; other users of the machine and other pages in the browser are refused. Nothing is
sent anywhere, no cluster is asked unless you name one, and nothing is enforced.

Without -p there are the policies of the library and their cases. With -p there are the files of a
folder, which the page changes only with --write. Policies call no HTTP services unless --ask-http
is set: somebody else may have written what you open.

With --from-cluster, or --kubeconfig, --context or --server, it also shows a cluster: its policies and
how they do, what exists and violates them, and decisions as they are made. It reads with your
credentials, as audit, watch and explain do, so that you see what you may read; the page gets no
credentials, and writes nothing: for each change it has the line to run.

What is on the page can be shared as a text. --open opens it again, and a file with such a text.

It serves until it is interrupted. The exit status is 2 if the page cannot be served.`,
		Example: `  usher console
  usher console -p policies/
  usher console -p policies/ --write
  usher console --from-cluster -n shop
  usher console --open state.txt
  usher console --no-open --port 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	flags := cmd.Flags()
	policies.RegisterFlag(flags, &f.folders, "; the console takes one folder")
	flags.IntVar(&f.port, "port", 8585, "port to listen on; 0 selects a free port")
	flags.StringVar(&f.open, "open", "", "what to begin with: a text that the page has shared, or a file with one")
	flags.BoolVar(&f.silent, "no-open", false, "print the address, and do not open the browser")
	flags.BoolVar(&f.write, "write", false, "let the page write files in the folder of -p")
	flags.BoolVar(&f.askHTTP, "ask-http", false, "let rules call HTTP services for each object that the page sends, as often as you type")
	f.limits.RegisterWithTimeout(cmd)
	f.cluster.Register(flags)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s cli.Streams) error {
	if err := f.cluster.Complete(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	b, err := f.bench()
	if err != nil {
		return err
	}
	if b.folder != nil {
		defer func() { _ = b.folder.Close() }()
	}
	if err := f.evaluators(b); err != nil {
		return err
	}
	defer b.workers.Close()
	live, err := f.cluster.Routes(cmd.Context(), b.attempts)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("listen: %w; is another console running? --port 0 selects a free port", err)
	}
	defer listener.Close()
	port := f.port
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		port = address.Port
	}
	server, err := console.New(console.Options{Port: port, Routes: append(b.routes(), live...), Version: b.version})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(s.Out, server.URL()); err != nil {
		return err
	}
	if !f.silent {
		if err := browse(cmd.Context(), server.URL()); err != nil {
			cli.Notef(cmd, s, "note", "open the address in a browser: %v", err)
		}
	}
	log := slog.New(slog.NewTextHandler(s.Err, nil))
	return server.Serve(cmd.Context(), listener, log)
}

// bench returns what the flags say that there is.
func (f *flags) bench() (*bench, error) {
	b := &bench{version: cli.BuildVersion().Version, writable: f.write, limits: f.limits}
	switch {
	case len(f.folders) > 1:
		return nil, errors.New("-p: the console takes one folder")
	case len(f.folders) == 0 && f.write:
		return nil, errors.New("--write is for the folder of -p, which is missing")
	}
	var err error
	if f.open != "" {
		if b.opened, err = opened(f.open); err != nil {
			return nil, err
		}
	}
	if len(f.folders) == 1 {
		if b.folder, err = console.OpenFolder(f.folders[0]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// evaluators gives a bench what decides. What policies take too long for is done where it can be stopped.
func (f *flags) evaluators(b *bench) error {
	b.workers = worker.New(worker.Options{Workers: 2})
	b.workers.Hold()
	checker := isolated.New(b.workers, isolated.Options{})
	var err error
	if b.attempts, err = try.NewAttempter(f.limits, checker, f.askHTTP); err == nil {
		b.assistant, err = write.Assistant(nil, &f.limits, checker)
	}
	if err != nil {
		b.workers.Close()
		return err
	}
	b.writing = b.assistant.File(try.PoliciesFile)
	return nil
}

// opened returns the state of a text, or of a file with one.
func opened(text string) (*console.State, error) {
	if state, err := console.Parse(text); err == nil || strings.HasPrefix(strings.TrimSpace(text), "usher1:") {
		return state, err
	}
	const largest = 4 << 20
	content, err := manifest.Read(text, largest)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = console.Parse(text)
		return nil, fmt.Errorf("--open: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--open: %w", err)
	}
	state, err := console.Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("--open %s: %w", text, err)
	}
	return state, nil
}

// browse opens an address in the user's browser.
func browse(ctx context.Context, address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	case "linux":
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display")
		}
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	if err := command.Start(); err != nil {
		return fmt.Errorf("no browser: %w", err)
	}
	go func() { _ = command.Wait() }()
	return nil
}
