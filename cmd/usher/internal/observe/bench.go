// Package observe has the commands that examine running servers.
package observe

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/load"
	"github.com/usher-dev/usher/internal/manifest"
)

type benchFlags struct {
	bodies      []string
	rate        float64
	duration    time.Duration
	timeout     time.Duration
	connections int
	caFile      string
	certFile    string
	keyFile     string
	insecure    bool

	output cli.OutputFlag
}

// Bench returns usher bench.
func Bench(s cli.Streams) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench URL -f FILE",
		Short: "Measure how fast a webhook answers",
		Long: `Bench posts requests to a webhook, any webhook, and measures how long the answers take.

With --rate it is an open loop, which is how an API server asks: requests are due at fixed
times, whether or not those before have been answered, and latency counts from when a
request was due. A webhook that stalls for a second is charged for all who waited, and not
just for the one whose turn it was. Without --rate each connection asks again as soon as it
has an answer; that shows the most that the webhook can do, and latency then says little.

First find that out, then measure the latency at the half of it, or at the rate that your
cluster needs:

  usher bench https://127.0.0.1:8443/mutate --ca-file ca.crt -f review.json
  usher bench https://127.0.0.1:8443/mutate --ca-file ca.crt -f review.json --rate 2000

A body is sent as it is. For an admission webhook that is an AdmissionReview as an API
server sends it; answers must be for the uid that it has. With several -f they are sent
in turn. The protocol is HTTP/1.1 with keep-alive, which API servers use for webhooks that
are Services.

The exit status is 0 if every request had an answer, whatever it was, and 1 if one had
none.`,
		Example: `  usher bench https://127.0.0.1:8443/validate --ca-file ca.crt -f review.json
  usher bench https://127.0.0.1:8443/validate --ca-file ca.crt -f review.json \
    --rate 500 --duration 1m --connections 32 -o json | jq .latencySeconds.p99`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the URL of one webhook, such as https://127.0.0.1:8443/validate")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.bodies, "file", "f", nil, "file or folder with request bodies, - for the standard input (repeatable)")
	flags.Float64VarP(&f.rate, "rate", "r", 0, "requests per second; 0 sends the next request when the answer to the one before arrives")
	flags.DurationVarP(&f.duration, "duration", "d", 10*time.Second, "how long to send requests")
	flags.IntVarP(&f.connections, "connections", "c", 8, "number of connections, and of requests in flight")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "timeout of one answer")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM file with the CA certificates to trust")
	flags.StringVar(&f.certFile, "client-cert-file", "", "PEM file with the client certificate to present")
	flags.StringVar(&f.keyFile, "client-key-file", "", "PEM file with the private key of --client-cert-file")
	flags.BoolVar(&f.insecure, "insecure-skip-tls-verify", false, "accept any certificate of the server")
	f.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, s cli.Streams, url string) error {
	options, err := f.options(s, url)
	if err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	generator, err := load.Connect(cmd.Context(), options)
	if err != nil {
		return err
	}
	defer generator.Close()
	report := benchReportOf(generator.Run(cmd.Context(), load.Pace{Rate: f.rate, Duration: f.duration}))
	report.URL, report.Connections, report.Rate = url, f.connections, f.rate
	err = f.output.Report(s.Out, report, func() error { return report.print(s.Out) })
	if err == nil && report.Failed+report.Unsent > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *benchFlags) options(s cli.Streams, url string) (load.Options, error) {
	o := load.Options{Connections: f.connections, Timeout: f.timeout}
	switch {
	case len(f.bodies) == 0:
		return o, errors.New("nothing to send: name a file with -f")
	case f.rate < 0:
		return o, fmt.Errorf("--rate %g: must not be negative", f.rate)
	case f.duration <= 0:
		return o, fmt.Errorf("--duration %s: must be more than 0", f.duration)
	case f.connections < 1:
		return o, fmt.Errorf("--connections %d: must be at least 1", f.connections)
	case (f.certFile == "") != (f.keyFile == ""):
		return o, errors.New("--client-cert-file and --client-key-file come together")
	}
	if err := cli.ReadsStdinOnce(f.bodies); err != nil {
		return o, err
	}
	for _, path := range f.bodies {
		bodies, err := readBodies(path, s.In)
		if err != nil {
			return o, fmt.Errorf("--file: %w", err)
		}
		for _, body := range bodies {
			o.Requests = append(o.Requests, load.Request{URL: url, Body: body})
		}
	}
	var err error
	o.TLS, err = f.tls()
	return o, err
}

func readBodies(path string, stdin io.Reader) ([][]byte, error) {
	if path == "-" {
		body, err := io.ReadAll(stdin)
		return [][]byte{body}, err
	}
	files, err := manifest.Files(path)
	if err != nil {
		return nil, err
	}
	var bodies [][]byte
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

func (f *benchFlags) tls() (*tls.Config, error) {
	roots, err := cli.RootCAs(f.caFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: f.insecure} //nolint:gosec // --insecure asks for it
	if f.certFile != "" {
		certificate, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--client-cert-file: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// A benchReport is the result of a bench. Durations are in seconds.
type benchReport struct {
	URL         string         `json:"url"`
	Connections int            `json:"connections"`
	Rate        float64        `json:"rate,omitempty"`
	Seconds     float64        `json:"seconds"`
	Answered    int            `json:"answered"`
	PerSecond   float64        `json:"answeredPerSecond"`
	Verdicts    map[string]int `json:"verdicts"`
	Latency     latencies      `json:"latencySeconds"`
	// Failed counts requests without a valid response, and Unsent those for which no connection was
	// free.
	Failed int          `json:"failed"`
	Errors []benchError `json:"errors,omitempty"`
	Unsent int          `json:"unsent"`
}

type latencies struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

type benchError struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

func benchReportOf(r *load.Measurement) *benchReport {
	report := &benchReport{
		Seconds: r.Elapsed.Seconds(), Answered: r.Answered, PerSecond: r.Rate(), Verdicts: r.Verdicts,
		Failed: r.Failed(), Unsent: r.Unsent,
		Latency: latencies{
			P50: r.Latency.Quantile(.5).Seconds(), P90: r.Latency.Quantile(.9).Seconds(), P99: r.Latency.Quantile(.99).Seconds(),
			P999: r.Latency.Quantile(.999).Seconds(), Max: r.Latency.Max().Seconds(),
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		report.Errors = append(report.Errors, benchError{Kind: kind, Count: r.Errors[kind], Example: r.Samples[kind].Error()})
	}
	return report
}

func (r *benchReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d answers in %.1f s: %.1f a second over %s\n", r.Answered, r.Seconds, r.PerSecond, cli.Count(r.Connections, "connection", "connections"))
	for _, verdict := range slices.Sorted(maps.Keys(r.Verdicts)) {
		fmt.Fprintf(&b, "  %-10s %d\n", verdict, r.Verdicts[verdict])
	}
	from := "from when a request was due"
	if r.Rate == 0 {
		from = "of a closed loop: at this load, not at yours"
	}
	fmt.Fprintf(&b, "Latency, %s:\n", from)
	for _, row := range []struct {
		name    string
		seconds float64
	}{{"p50", r.Latency.P50}, {"p90", r.Latency.P90}, {"p99", r.Latency.P99}, {"p99.9", r.Latency.P999}, {"max", r.Latency.Max}} {
		fmt.Fprintf(&b, "  %-6s %s\n", row.name, time.Duration(row.seconds*1e9).Round(time.Microsecond))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(&b, "%s without answer: %s\n", cli.Count(e.Count, "request", "requests"), e.Example)
	}
	if r.Unsent > 0 {
		fmt.Fprintf(&b, "%s not sent: no connection was free. The webhook cannot keep up, or --connections is too low\n", cli.Count(r.Unsent, "request", "requests"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
