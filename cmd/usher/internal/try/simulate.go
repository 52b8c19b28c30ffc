package try

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/simulate"
)

type simulateFlags struct {
	files, old  []string
	cluster     []string
	fromCluster bool
	kubeconfig  string
	context     string

	operation             string
	resource, subresource string
	namespace, name       string
	user                  string
	groups                []string
	dryRun                bool
	timeout               time.Duration

	services       []string
	usher          []string
	localFacts     bool
	limits         policies.Limits
	record, replay string

	output cli.OutputFlag
	color  cli.ColorFlag
	all    bool
}

// Simulate returns usher simulate.
func Simulate(s cli.Streams) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f OBJECTS --cluster DIR",
		Short: "Show what an API server would do with objects, step by step",
		Long: `Simulate runs the admission chain of the API server itself, without an API server: it takes
the webhook configurations, ValidatingAdmissionPolicies and MutatingAdmissionPolicies with
their bindings and parameters, the namespaces and the custom kinds that it finds in a folder
(--cluster), or reads from a cluster that it does not change (--from-cluster).

It prints every step in order: whether a webhook or policy was asked and which rule,
selector or condition decided that, what it changed, warned of and refused, the second round
of mutations if there is one, and in the end the object that would be stored or the error
that a client would get.

Webhooks are called at their URL. One that is a Service is called where --service says;
without that nobody answers, and its failurePolicy decides. With --usher POLICIES those of
Usher are answered in process; a --cluster without a registration of Usher gets one.
--record keeps all answers in a file, and --replay answers from it: nothing is called then.

Not simulated: authentication and authorization, defaults and validation of built-in kinds
(give objects as 'kubectl create --dry-run=server -o yaml' prints them), managedFields,
ResourceQuota, LimitRanger and the other plugins that are compiled into kube-apiserver.

The exit status is 0 if every object is admitted, 1 if one is refused, and 2 if something
cannot be used.`,
		Example: `  # what would the cluster in this folder do with a pod?
  kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces -o yaml > cluster/all.yaml
  usher simulate -f pod.yaml --cluster cluster/

  # and with these policies of Usher in force?
  usher simulate -f pod.yaml --cluster cluster/ --usher policies/

  # a live cluster, which is only read; its webhooks are called
  usher simulate -f pod.yaml --from-cluster --service shop/webhook=https://127.0.0.1:8443

  # as somebody, an update, a dry run
  usher simulate -f new.yaml --old old.yaml --cluster cluster/ --as jane --as-group dev --dry-run

  # call the webhooks once, and then play with the object or the policies
  usher simulate -f pod.yaml --cluster cluster/ --record answers.json
  usher simulate -f pod.yaml --cluster cluster/ --replay answers.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd)
	return cmd
}

func (f *simulateFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file or folder with objects or AdmissionReviews, - for the standard input (repeatable)")
	flags.StringArrayVar(&f.cluster, "cluster", nil, "file or folder with what is in the cluster (repeatable)")
	flags.BoolVar(&f.fromCluster, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig for --from-cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig, if it is not the current one")
	flags.StringVar(&f.operation, "operation", "", "CREATE, UPDATE, DELETE or CONNECT (CREATE, or UPDATE with --old)")
	cli.Offer(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	flags.StringArrayVar(&f.old, "old", nil, "file or folder with the objects before an UPDATE (default: those in the cluster; repeatable)")
	flags.StringVar(&f.resource, "resource", "", "resource that is asked, if the kind does not tell: deployments.apps for a Scale")
	flags.StringVar(&f.subresource, "subresource", "", "subresource that is asked, such as status or scale")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the request, for objects that have none")
	flags.StringVar(&f.name, "name", "", "name of the request, for objects that have none, such as those of a CONNECT")
	flags.StringVar(&f.user, "as", "", "name of the user who asks (default: an administrator)")
	flags.StringArrayVar(&f.groups, "as-group", nil, "group of the user (repeatable)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say that the request is a dry run")
	flags.DurationVar(&f.timeout, "timeout", 34*time.Second, "how long the whole request may take")
	flags.StringArrayVar(&f.services, "service", nil, "where a Service is: namespace/name[:port]=URL (repeatable)")
	flags.StringArrayVar(&f.usher, "usher", nil, "file or folder with policies: Usher's webhooks are answered in process (repeatable)")
	f.limits.Register(flags)
	flags.BoolVar(&f.localFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
	flags.StringVar(&f.record, "record", "", "write the answers of the webhooks to this file; it holds whole objects")
	flags.StringVar(&f.replay, "replay", "", "answer for the webhooks from this file")
	flags.BoolVar(&f.all, "all", false, "print conditions and expressions that are true, too, and each call")
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
}

func (f *simulateFlags) run(cmd *cobra.Command, s cli.Streams) error {
	if err := f.validate(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	// The API server's code says in its log what the trace says better.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	simulator, recording, err := f.simulator(cmd.Context(), s)
	if err != nil {
		return err
	}
	defer simulator.Close()
	requests, err := f.requests(s)
	if err != nil {
		return err
	}
	report := simulateReport{}
	for _, r := range requests {
		trace, err := simulator.Run(cmd.Context(), r.request)
		if err != nil {
			return fmt.Errorf("%s: %w", r.file, err)
		}
		report.add(r.file, trace)
	}
	if err := f.keep(recording); err != nil {
		return err
	}
	if f.output.Value == "text" {
		err = report.print(s.Out, f.color.Palette(s.Out), f.all)
	} else {
		err = f.output.Encode(s.Out, report)
	}
	if err == nil && report.Refused > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *simulateFlags) validate() error {
	f.operation = strings.ToUpper(f.operation)
	switch {
	case len(f.files) == 0:
		return errors.New("no objects: name a file with -f, or -f - for the standard input")
	case len(f.cluster) == 0 && !f.fromCluster && len(f.usher) == 0:
		return errors.New("no cluster: name a folder with --cluster, or read one with --from-cluster")
	case len(f.cluster) > 0 && f.fromCluster:
		return errors.New("--cluster and --from-cluster exclude each other")
	case !f.fromCluster && (f.kubeconfig != "" || f.context != ""):
		return errors.New("--kubeconfig and --context are for --from-cluster")
	case f.record != "" && f.replay != "":
		return errors.New("--record and --replay exclude each other")
	case f.user == "" && len(f.groups) > 0:
		return errors.New("--as-group needs --as")
	case f.operation == "" && len(f.old) > 0:
		f.operation = string(usher.Update)
	case f.operation == "":
		f.operation = string(usher.Create)
	}
	if err := checkOperation(f.operation, f.old); err != nil {
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
		return fmt.Errorf("--service %s: write namespace/name=https://host:port", text)
	}
	return nil
}

// simulator reads the cluster. The recording is nil without --record.
func (f *simulateFlags) simulator(ctx context.Context, s cli.Streams) (*simulate.Simulator, *simulate.Recording, error) {
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
	known, err := f.knownCluster(ctx, s, &o)
	if err != nil {
		return nil, nil, err
	}
	simulator, err := simulate.New(ctx, known, o)
	return simulator, o.Record, err
}

// knownCluster is the cluster, in which Usher answers if it is wanted.
func (f *simulateFlags) knownCluster(ctx context.Context, s cli.Streams, o *simulate.Options) (*simulate.Cluster, error) {
	var set policies.Set
	if len(f.usher) > 0 {
		var err error
		if set, err = policies.Usable(s, f.usher, &f.limits); err != nil {
			return nil, err
		}
	}
	known, err := f.read(ctx, s, set)
	if err != nil || len(f.usher) == 0 {
		return known, err
	}
	client, err := dynamic.NewForConfig(known.Config())
	if err != nil {
		return nil, err
	}
	objects := cluster.New(client, known.Mapper(), cluster.Options{})
	o.Local = simulate.AnsweredBy(set.Decider(fact.Route(objects, policies.HTTPFacts(f.localFacts))))
	return known, nil
}

func (f *simulateFlags) read(ctx context.Context, s cli.Streams, set policies.Set) (*simulate.Cluster, error) {
	if f.fromCluster {
		config, err := f.rest()
		if err != nil {
			return nil, err
		}
		return simulate.FromServer(ctx, config)
	}
	var trees []map[string]any
	if len(f.cluster) > 0 {
		inputs, err := objects.Read(f.cluster, s.In)
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w", err)
		}
		for _, in := range inputs {
			if in.Object != nil {
				trees = append(trees, in.Object)
			}
		}
	}
	if len(f.usher) > 0 {
		var err error
		if trees, err = simulate.WithUsher(trees, set.Rules); err != nil {
			return nil, err
		}
	}
	known, err := simulate.FromObjects(trees)
	if err != nil {
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	return known, nil
}

func (f *simulateFlags) rest() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--from-cluster: %w", err)
	}
	config.UserAgent = "usher/" + cli.BuildVersion().Version
	return config, nil
}

// keep writes what was recorded, for nobody else to read: it has whole objects in it.
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

// A simulation is a request, with the file that it comes from.
type simulation struct {
	file    string
	request simulate.Request
}

func (f *simulateFlags) requests(s cli.Streams) ([]simulation, error) {
	inputs, olds, err := readWithOld(f.files, f.old, s.In)
	if err != nil {
		return nil, err
	}
	requests := make([]simulation, 0, len(inputs))
	for _, in := range inputs {
		request, err := f.request(in, olds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.File, err)
		}
		requests = append(requests, simulation{in.File, request})
	}
	return requests, nil
}

func (f *simulateFlags) request(in objects.Input, olds []objects.Input) (simulate.Request, error) {
	if in.Review != nil {
		return f.reviewed(in)
	}
	r := simulate.Request{
		Operation: usher.Operation(f.operation), Object: in.Object, Resource: f.resource, Subresource: f.subresource,
		User: usher.User{Name: f.user, Groups: f.groups}, DryRun: f.dryRun,
	}
	if nameOf(in.Object).Namespace == "" {
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
	r.OldObject, err = oldOf(in.Object, olds)
	return r, err
}

// reviewed is the request that a recorded review is about.
func (f *simulateFlags) reviewed(in objects.Input) (simulate.Request, error) {
	q := reviewRequest(in.Review)
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
