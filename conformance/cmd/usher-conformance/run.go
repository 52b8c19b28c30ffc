package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/usher-dev/usher/conformance/internal/node"
	"github.com/usher-dev/usher/conformance/internal/spec"
	"github.com/usher-dev/usher/conformance/internal/suite"
	"github.com/usher-dev/usher/conformance/internal/trial"
	"github.com/usher-dev/usher/conformance/internal/verdict"
)

// errNotMet is what run returns when everything was said already.
var errNotMet = errors.New("a server did not do what it has to")

// options are the flags.
type options struct {
	servers []string
	focus   string
	lanes   int
	samples string
	sandbox string
	dir     string
	timeout time.Duration
}

func (o *options) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&o.servers, "server", []string{"usher", "allow-all"}, "servers to run against: usher, allow-all, reference (upstream's handlers; its admission webhook listens on every address)")
	flags.StringVar(&o.focus, "focus", "", "run only the specs whose name matches this regular expression")
	flags.IntVar(&o.lanes, "lanes", 4, "how many sandboxes run specs at a time")
	flags.StringVar(&o.samples, "samples-bin", valueOr("USHER_SAMPLES_BIN", "bin/usher-samples"), "path of usher-samples")
	flags.StringVar(&o.sandbox, "sandbox-bin", valueOr("USHER_SANDBOX_BIN", "bin/usher-sandbox"), "path of usher-sandbox")
	flags.StringVar(&o.dir, "dir", ".cache/conformance", "folder for logs; what an earlier run left in it is removed")
	flags.DurationVar(&o.timeout, "timeout", 20*time.Minute, "how long all may take")
}

func valueOr(variable, fallback string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return fallback
}

// An entrant is a server, and what is expected of it.
type entrant struct {
	verdict.Entrant
	program node.Program
}

// run runs the specs against every server that was asked for.
func run(ctx context.Context, o options, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not finished after %s: allow more with --timeout", o.timeout))
	defer cancel()
	all := suite.List()
	specs, err := o.pick(all)
	if err != nil {
		return err
	}
	entrants, err := o.entrants()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Kubernetes %s: %d of %d specs\n\n", upstream(), len(specs), len(all))
	met := true
	for _, e := range entrants {
		began := time.Now()
		report := verdict.NewReport(out, e.Entrant, specs)
		if err := o.try(ctx, e, specs, report); err != nil {
			return fmt.Errorf("run specs against %s: %w", e.Name, err)
		}
		met = report.End(time.Since(began)) && met
	}
	if !met {
		return errNotMet
	}
	return nil
}

// pick returns the specs that were asked for.
func (o *options) pick(all []spec.Spec) ([]spec.Spec, error) {
	if err := verdict.Check(all); err != nil {
		return nil, err
	}
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("parse --focus: %w", err)
	}
	var specs []spec.Spec
	for _, s := range all {
		if focus.MatchString(s.Name) {
			specs = append(specs, s)
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("--focus %s matches none of the %d specs", o.focus, len(all))
	}
	return specs, nil
}

// entrants are the servers that were asked for, if what they need is there.
func (o *options) entrants() ([]entrant, error) {
	if _, err := os.Stat(o.sandbox); err != nil {
		return nil, fmt.Errorf("find usher-sandbox: %w: name it with --sandbox-bin or $USHER_SANDBOX_BIN", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	samples, err := filepath.Abs(o.samples)
	if err != nil {
		return nil, fmt.Errorf("find usher-samples: %w", err)
	}
	mine := func(server string) node.Program { return node.Program{Command: []string{self, "serve", server}} }
	var entrants []entrant
	for _, name := range o.servers {
		e := entrant{Entrant: verdict.Entrant{Name: name, Standard: verdict.Conformant}}
		switch name {
		case "usher":
			e.About = "the sample webhooks of " + o.samples
			e.program = node.Program{Command: []string{samples}, Args: []string{"--bind-address=127.0.0.1"}}
		case "reference":
			e.About, e.program = "upstream's own handlers", mine(name)
		case "allow-all":
			e.About, e.program, e.Standard = "a server that allows everything", mine(name), verdict.Indifferent
		default:
			return nil, fmt.Errorf("unknown server %q: use usher, allow-all or reference", name)
		}
		if _, err := os.Stat(e.program.Command[0]); err != nil {
			return nil, fmt.Errorf("find usher-samples: %w: name it with --samples-bin or $USHER_SAMPLES_BIN", err)
		}
		entrants = append(entrants, e)
	}
	return entrants, nil
}

// try runs the specs against one server, dealt out to lanes in turn.
func (o *options) try(ctx context.Context, e entrant, specs []spec.Spec, report *verdict.Report) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir := filepath.Join(o.dir, e.Name)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty folder for logs: %w", err)
	}
	lanes := min(max(o.lanes, 1), len(specs))
	group, ctx := errgroup.WithContext(ctx)
	for lane := range lanes {
		t := &trial.Trial{
			Server:  e.program,
			Sandbox: o.sandbox,
			Runner:  []string{self, "suite"},
			Dir:     filepath.Join(dir, fmt.Sprintf("lane-%d", lane+1)),
		}
		for i := lane; i < len(specs); i += lanes {
			t.Specs = append(t.Specs, specs[i])
		}
		group.Go(func() error {
			return t.Run(ctx, func(result spec.Result) { report.Add(result, t.ServerLogs(result)) })
		})
	}
	return group.Wait()
}

// upstream is the version of Kubernetes whose specs were built in.
func upstream() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "of an unknown version"
}
