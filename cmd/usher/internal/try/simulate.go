package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/simulate"
)

type simulateFlags struct {
	requestFlags

	clusterFlags

	cluster []string
	timeout time.Duration

	services       []string
	usher          []string
	localFacts     bool
	limits         policies.Limits
	record, replay string

	output  cli.OutputFlag
	color   cli.ColorFlag
	verbose bool
}

// Simulate returns usher simulate.
func Simulate(s cli.Streams) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate OBJECTS... --cluster-files DIR",
		Short: "Show what an API server would do with objects, step by step",
		Long: `Simulate runs the admission chain of the API server itself, without an API server: it takes
the webhook configurations, ValidatingAdmissionPolicies and MutatingAdmissionPolicies with
their bindings and parameters, the namespaces and the custom kinds that it finds in a folder
(--cluster-files), or reads from a cluster that it does not change (--from-cluster).

It prints every step in order: whether a webhook or policy was asked and which rule,
selector or condition decided that, what it changed, warned of and refused, the second round
of mutations if there is one, and in the end the object that would be stored or the error
that a client would get.

Webhooks are called at their URL. One that is a Service is called where --service-url says;
without that nobody answers, and its failurePolicy decides. With -p POLICIES those of
Usher are answered in process; a --cluster-files without a registration of Usher gets one.
--record keeps all answers in a file, and --replay answers from it: nothing is called then.

Not simulated: authentication and authorization, defaults and validation of built-in kinds
(give objects as 'kubectl create --dry-run=server -o yaml' prints them), managedFields,
ResourceQuota, LimitRanger and the other plugins that are compiled into kube-apiserver.

The exit status is 0 if every object is admitted, 1 if one is refused, and 2 if something
cannot be used.`,
		Example: `  # what would the cluster in this folder do with a pod?
  kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces -o yaml > cluster/all.yaml
  usher simulate pod.yaml --cluster-files cluster/

  # and with these policies of Usher in force?
  usher simulate pod.yaml --cluster-files cluster/ -p policies/

  # a live cluster, which is only read; its webhooks are called
  usher simulate pod.yaml --from-cluster --service-url shop/webhook=https://127.0.0.1:8443

  # as somebody, an update, a dry run
  usher simulate new.yaml --old old.yaml --cluster-files cluster/ --as jane --as-group dev --dry-run

  # call the webhooks once, and then play with the object or the policies
  usher simulate pod.yaml --cluster-files cluster/ --record answers.json
  usher simulate pod.yaml --cluster-files cluster/ --replay answers.json -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.registerIn(cmd)
	return cmd
}

func (f *simulateFlags) registerIn(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.register(cmd, "default")
	policies.RegisterFlag(flags, &f.usher, "; Usher's webhooks are answered in process")
	flags.StringArrayVar(&f.cluster, "cluster-files", nil, "file or folder with the objects of the cluster (repeatable)")
	f.clusterFlags.registerIn(flags, "")
	flags.DurationVar(&f.timeout, "timeout", 34*time.Second, "timeout of the whole request")
	flags.StringArrayVar(&f.services, "service-url", nil, "URL at which to call a Service, as NAMESPACE/NAME[:PORT]=URL (repeatable)")
	f.limits.RegisterWithTimeout(cmd)
	flags.BoolVar(&f.localFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
	flags.StringVar(&f.record, "record", "", "file to write the answers of the webhooks to; it contains whole objects")
	flags.StringVar(&f.replay, "replay", "", "file written by --record, to answer for the webhooks")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print more: conditions and expressions that are true, and each call")
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
}

func (f *simulateFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	if err := cmp.Or(f.complete(args), f.validate()); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	// The trace has more details than the log of the API server's code.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	simulator, recording, err := f.simulator(cmd, s)
	if err != nil {
		return err
	}
	defer simulator.Close()
	requests, err := f.simulations(cmd, s)
	if err != nil {
		return err
	}
	report := simulateReport{}
	for _, r := range requests {
		trace, err := policies.Within(cmd.Context(), f.limits.Timeout(), "simulate it", func(ctx context.Context) (*simulate.Trace, error) {
			return simulator.Run(ctx, r.request)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", r.file, err)
		}
		report.add(simulated{r.file, trace, !f.fromCluster})
	}
	if err := f.keep(recording); err != nil {
		return err
	}
	err = f.output.Report(s.Out, report, func() error { return report.print(s.Out, f.color.Palette(s.Out), f.verbose) })
	if err == nil && report.Refused > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *simulateFlags) validate() error {
	f.operation = strings.ToUpper(f.operation)
	switch {
	case len(f.files) == 0:
		return errors.New("no objects: name a file, or - for the standard input")
	case len(f.cluster) == 0 && !f.fromCluster && len(f.usher) == 0:
		return errors.New("no cluster: name a folder with --cluster-files, or read one with --from-cluster")
	case len(f.cluster) > 0 && f.fromCluster:
		return errors.New("--cluster-files and --from-cluster exclude each other")
	case f.record != "" && f.replay != "":
		return errors.New("--record and --replay exclude each other")
	case f.user.Name == "" && len(f.user.Groups) > 0:
		return errors.New("--as-group needs --as")
	}
	if err := f.validateCluster(); err != nil {
		return err
	}
	if err := cli.ReadsStdinOnce(f.usher, f.files, f.old, f.cluster); err != nil {
		return err
	}
	for _, service := range f.services {
		if err := checkService(service); err != nil {
			return err
		}
	}
	return nil
}

func checkService(text string) error {
	name, target, ok := strings.Cut(text, "=")
	namespace, _, hasName := strings.Cut(name, "/")
	address, err := url.Parse(target)
	if !ok || !hasName || namespace == "" || err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return fmt.Errorf("--service-url %s: expected NAMESPACE/NAME=https://HOST:PORT", text)
	}
	return nil
}

// simulator reads the cluster. The recording is nil without --record.
func (f *simulateFlags) simulator(cmd *cobra.Command, s cli.Streams) (*simulate.Simulator, *simulate.Recording, error) {
	o := simulate.Options{Services: map[string]string{}, Timeout: f.timeout}
	for _, service := range f.services {
		name, target, _ := strings.Cut(service, "=")
		o.Services[name] = target
	}
	if f.record != "" {
		o.Record = &simulate.Recording{}
	}
	if f.replay != "" {
		file, err := os.Open(f.replay)
		if err != nil {
			return nil, nil, fmt.Errorf("--replay: %w", err)
		}
		defer file.Close()
		if o.Replay, err = simulate.ReadRecording(file); err != nil {
			return nil, nil, fmt.Errorf("--replay %s: %w", f.replay, err)
		}
	}
	known, err := f.knownCluster(cmd, s, &o)
	if err != nil {
		return nil, nil, err
	}
	simulator, err := simulate.New(cmd.Context(), known, o)
	return simulator, o.Record, err
}

// knownCluster returns the cluster, in which Usher handles requests if the flags say so.
func (f *simulateFlags) knownCluster(cmd *cobra.Command, s cli.Streams, o *simulate.Options) (*simulate.Cluster, error) {
	var set policies.Set
	if len(f.usher) > 0 {
		var err error
		if set, err = policies.Usable(cmd, s, f.usher, &f.limits); err != nil {
			return nil, err
		}
		set.NoteIdle(cmd, s)
	}
	known, err := f.readCluster(cmd, s, set)
	if err != nil || len(set.Rules) == 0 {
		return known, err
	}
	client, err := dynamic.NewForConfig(known.Config())
	if err != nil {
		return nil, err
	}
	objects := cluster.New(client, known.Mapper(), cluster.Options{})
	from := facts.Flags{AllowLocal: f.localFacts}
	o.Local = simulate.AnsweredBy(set.Decider(from.From(objects, known.Access())))
	return known, nil
}

func (f *simulateFlags) readCluster(cmd *cobra.Command, s cli.Streams, set policies.Set) (*simulate.Cluster, error) {
	if f.fromCluster {
		config, err := f.rest()
		if err != nil {
			return nil, err
		}
		return simulate.FromServer(cmd.Context(), config)
	}
	var trees []map[string]any
	if len(f.cluster) > 0 {
		inputs, err := objects.Read(cmd, s, f.cluster)
		if err != nil {
			return nil, fmt.Errorf("--cluster-files: %w", err)
		}
		for _, in := range inputs {
			if in.Object != nil {
				trees = append(trees, in.Object)
			}
		}
	}
	if len(f.usher) > 0 {
		var err error
		if trees, err = simulate.Registered(trees, func(mapper meta.RESTMapper) ([]map[string]any, error) {
			return webhookconfig.Trees(rule.Cover(set.Rules), mapper)
		}); err != nil {
			return nil, err
		}
	}
	known, err := simulate.FromObjects(trees)
	if err != nil {
		return nil, fmt.Errorf("--cluster-files: %w", err)
	}
	return known, nil
}

// keep writes the recording to a file that only the user can read: it contains whole objects.
func (f *simulateFlags) keep(recording *simulate.Recording) error {
	if recording == nil {
		return nil
	}
	file, err := os.OpenFile(f.record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return errors.Join(recording.Write(file), file.Close())
}

// A simulation is a request, with the file of its object.
type simulation struct {
	file    string
	request simulate.Request
}

func (f *simulateFlags) simulations(cmd *cobra.Command, s cli.Streams) ([]simulation, error) {
	read := f.read(cmd, s)
	if read.err != nil {
		return nil, read.err
	}
	who, err := f.user.User()
	if err != nil {
		return nil, err
	}
	requests := make([]simulation, 0, len(read.objects))
	for _, in := range read.objects {
		request, err := f.simulation(in, read.olds, who)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.File, err)
		}
		requests = append(requests, simulation{in.File, request})
	}
	return requests, nil
}

func (f *simulateFlags) simulation(in objects.Input, olds []objects.Input, who usher.User) (simulate.Request, error) {
	if in.Review != nil {
		return f.reviewed(in)
	}
	in.Object = podtemplate.Defaulted(in.Object)
	r := simulate.Request{
		Operation: usher.Operation(f.operation), Object: in.Object, Resource: f.resource, Subresource: f.subresource,
		User: who, DryRun: f.dryRun,
	}
	if result.ToBe(in.Object).Namespace == "" {
		r.Namespace = f.namespace
	}
	if metadata, _ := in.Object["metadata"].(map[string]any); metadata["name"] == nil && metadata["generateName"] == nil {
		r.Name = f.name
	}
	if r.Operation == usher.Delete {
		r.Object, r.OldObject = nil, in.Object
	}
	if len(olds) == 0 || r.Operation != usher.Update {
		return r, nil
	}
	var err error
	if r.OldObject, err = oldOf(in.Object, olds); err == nil {
		r.OldObject = podtemplate.Defaulted(r.OldObject)
	}
	return r, err
}

// reviewed returns the request of a recorded review.
func (f *simulateFlags) reviewed(in objects.Input) (simulate.Request, error) {
	q := admission.RequestOf(in.Review)
	object, err := q.Object.Tree()
	if err != nil {
		return simulate.Request{}, err
	}
	old, err := q.OldObject.Tree()
	if err != nil {
		return simulate.Request{}, err
	}
	return simulate.Request{
		Operation: q.Operation, Object: object, OldObject: old, Resource: q.Resource.GroupResource().String(), Subresource: q.Subresource,
		Name: q.Name, Namespace: q.Namespace, User: q.User, DryRun: q.DryRun,
	}, nil
}
