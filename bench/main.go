// Command bench compares Usher with webhooks that do as little as can be done: over real
// HTTPS, in processes of their own, in alternating rounds on one machine.
//
//	bin/usher-bench                compare, and write bench/results.md
//	bin/usher-bench -run cue       only what has cue in its name, and the references
//	bin/usher-bench gate           fail if decisions cost more than is recorded
//	bin/usher-bench soak           fail if attackers keep honest callers from being answered
//	bin/usher-bench hostile        fail if hostile CUE keeps honest CUE of other namespaces waiting
//	bin/usher-bench profile        profile what usher does, for the compiler
//
// Call it in the root folder of the repository, as make does. It is a module of its own.
// What counts is the ratio of CPU time per request to that of the ordinary webhook, which
// decodes the review with encoding/json and allows: it differs little between machines.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/usher-dev/usher/internal/trial/isolated"
)

func main() {
	isolated.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "reference" {
		return runReference(args[1], args[2], args[3])
	}
	for name, command := range map[string]func(context.Context, []string) error{
		"gate": runGate, "soak": runSoak, "hostile": runSiege, "profile": runProfile,
	} {
		if len(args) > 0 && args[0] == name {
			return command(ctx, args[1:])
		}
	}
	return compare(ctx, args)
}

// An options is the command line of a comparison.
type options struct {
	plan
	usher string
	flags string
	only  string
	sizes string
	out   string
}

func compare(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.usher, "usher", "bin/usher", "the binary to measure")
	flags.StringVar(&o.flags, "flags", "", "further flags of usher serve")
	flags.DurationVar(&o.time, "benchtime", time.Second, "how long each target is asked in each of three ways in each round")
	flags.IntVar(&o.rounds, "rounds", 5, "how often")
	flags.IntVar(&o.connections, "connections", 16, "how many connections are many")
	flags.StringVar(&o.only, "run", "", "regular expression of the targets to measure; references are always")
	flags.StringVar(&o.sizes, "sizes", "7000,67000,3000000", "sizes of the reviews in bytes; the first is asked of all targets")
	flags.StringVar(&o.out, "o", "", "file for the results, besides the standard output")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.progress = os.Stderr
	if !terminal(os.Stderr) {
		o.progress = io.Discard
	}
	return o.compare(ctx)
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (o *options) compare(ctx context.Context) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	r, err := newRig(o.usher, strings.Fields(o.flags))
	if err != nil {
		return err
	}
	defer r.close()
	// Servers reject requests that together take more than a quarter of it: sixteen of 3 MB may.
	r.env = []string{"GOMEMLIMIT=4GiB"}
	var results bytes.Buffer
	w := io.MultiWriter(os.Stdout, &results)
	if err := o.explain(w); err != nil {
		return err
	}
	var inProcess []byte
	for i, text := range strings.Split(o.sizes, ",") {
		var size int
		if _, err := fmt.Sscan(text, &size); err != nil {
			return fmt.Errorf("-sizes %s: %w", text, err)
		}
		targets := largeTargets()
		if i == 0 {
			if targets, err = allTargets(); err != nil {
				return err
			}
		}
		body, err := review(size)
		if err != nil {
			return err
		}
		subjects, err := r.run(ctx, o.plan, selected(targets, only), body)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\n## Review of %s (%d bytes)\n\n", sizeName(size), len(body)); err != nil {
			return err
		}
		if err := writeTable(w, subjects); err != nil {
			return err
		}
		if i == 0 {
			inProcess = body
		}
	}
	if only.MatchString("in process") {
		if err := writeInProcess(ctx, w, o.rounds, inProcess); err != nil {
			return err
		}
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, results.Bytes(), 0o644)
}

func selected(targets []target, only *regexp.Regexp) []target {
	var chosen []target
	for _, t := range targets {
		if t.reference != "" || only.MatchString(t.name) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

func (o *options) explain(w io.Writer) error {
	_, err := fmt.Fprintf(w, `# Measured by make bench

Machine: %s. GOMAXPROCS of the servers %d; the load generator shares the machine.
Best of %d rounds of %s for each target in each way, over HTTPS (TLS 1.3, HTTP/1.1 keep-alive).

*ratio* is CPU time of the server per request over many connections, in those of *ordinary*, a webhook that decodes the review
with encoding/json and allows, and is asked just before: the median of the rounds. *floor* only looks for the uid. requests/s, p50, p99 and p99.9 are those of a closed loop over %d connections,
then over one; then the latency in an open loop at half the rate of the first, counted from when a request was due, whose p99
is to be at most three times its p50. memory is resident, code included, after the last round.
`, machine(), runtime.GOMAXPROCS(0), o.rounds, o.time, o.connections)
	return err
}
