// Package try has the commands that try policies on objects, requests and test cases.
package try

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

type decideFlags struct {
	requestFlags
	clusterFlags

	policies       []string
	facts          facts.Flags
	limits         policies.Limits
	server, caFile string
	wait           time.Duration

	output cli.OutputFlag
	color  cli.ColorFlag

	// named are objects of the cluster, as KIND/NAME.
	named []string
	// store looks up the objects of --facts, and set has the policies.
	store *facts.Store
	set   policies.Set
	// leftOut are resources of policies that the user may not read, and that may refuse what others allow.
	leftOut []string
	// noteUnread prints to stderr how to learn whether these refuse an object.
	noteUnread func()
}

// Decide returns usher decide.
func Decide(s cli.Streams) *cobra.Command {
	var f decideFlags
	cmd := &cobra.Command{
		Use:        "decide -p POLICIES OBJECTS...",
		SuggestFor: []string{"eval", "validate"},
		Short:      "Show what policies do with objects, and why",
		Long: `Decide asks what an API server would ask when each object is written: first what to
change about it, then whether the result may be stored. It prints the verdict, the rules
that matched, those that nearly did with the clause that kept them from it, and a diff of
what was changed. Objects can be lists, several documents, or recorded AdmissionReviews,
which bring their own operation, user and old object. -f names objects, too.

Objects that name no namespace are in that of -n, of the kubeconfig with --from-cluster, or in
default, if their kind is in namespaces. They are judged as written, with one of the defaults that API servers set before they ask
policies: the imagePullPolicy of containers. Where a policy reads another one, use the output
of kubectl get -o yaml or kubectl create --dry-run=server -o yaml.

Policies can read other objects, such as the Namespace or the owner of an object: --facts
names files with those that exist.

With --from-cluster it reads policies from a cluster, also the ValidatingAdmissionPolicies and
MutatingAdmissionPolicies that its API server enforces, and facts: Namespaces, params, and
what users may do. It leaves out policies that Usher does not enforce because they are not
proven, and names them: see 'usher authz adopt'. Without --as, requests are those of the user
of the kubeconfig.

With --server it asks a running webhook in place of policies; that one tells the verdict
and the changes, but not the rules.

With -o case it writes each decision as a case of 'usher test', to start from.

The exit status is 0 if every object is allowed, 1 if one is denied, and 2 if policies or
objects cannot be used.`,
		Example: `  usher decide -p policies/ pod.yaml
  usher decide -p policies/ new.yaml --old old.yaml
  usher decide -p policies/ pod.yaml --operation DELETE --as jane --as-group dev
  usher decide -p policies/ pod.yaml --facts namespaces.yaml
  usher decide --from-cluster pod.yaml
  usher decide --from-cluster deployment/web -n shop
  kubectl get pods -A -o yaml | usher decide -p policies/ -
  kubectl get clustervalidatepolicies -o yaml | usher decide -p - pod.yaml
  usher decide -p policies/ review.json -o json | jq '.decisions[].patch'
  usher decide -p policies/ -o case pod.yaml > case.yaml; usher test case.yaml
  usher decide --server https://127.0.0.1:8443 --ca-file ca.crt pod.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.registerDecision(cmd, "text", "json", "yaml", caseOutput)
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "URL of a running webhook to ask in place of policies")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM file with the CA certificates to trust; for --server")
	flags.DurationVar(&f.wait, "wait", 15*time.Second, "how long to wait until --server is ready")
	return cmd
}

// registerDecision adds the flags of commands that evaluate policies and print the results.
func (f *decideFlags) registerDecision(cmd *cobra.Command, formats ...string) {
	f.registerInput(cmd)
	f.output.Register(cmd, formats...)
	f.color.Register(cmd)
}

// registerInput adds the flags that say which requests are decided by which policies.
func (f *decideFlags) registerInput(cmd *cobra.Command) {
	flags := cmd.Flags()
	policies.RegisterFlag(flags, &f.policies, "")
	f.register(cmd, "")
	f.facts.Register(flags)
	f.clusterFlags.registerIn(flags, "; its policies are added to those of -p, and facts come from it")
	f.limits.RegisterWithTimeout(cmd)
}

func (f *decideFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	if err := cmp.Or(f.completeNamed(args), f.validate()); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	decider, rules, err := f.decider(cmd, s)
	if err != nil {
		return err
	}
	requests, err := f.questions(cmd, s)
	if err != nil {
		return err
	}
	report := decideReport{Idle: f.set.Idle(), asker: f.asker}
	var late error
	for _, r := range requests {
		var j Judgement
		if j, late = f.judge(cmd.Context(), decider, rules, r); late != nil {
			// The policy takes as long for the next one.
			break
		}
		report.add(j)
	}
	if late == nil || len(report.Decisions) > 0 {
		if err := f.print(s, &report); err != nil {
			return err
		}
	}
	if len(f.policies) > 0 && !f.slipped && slices.ContainsFunc(report.Decisions, func(j Judgement) bool { return j.fails() }) {
		cli.Notef(cmd, s, "note", "a rule fails: 'usher explain --cost' says on which values, and what it takes; 'usher check' tries policies on samples")
	}
	if !f.fromCluster && slices.ContainsFunc(report.Decisions, func(j Judgement) bool { return j.lacks() }) {
		objects.NoteDefaults(cmd, s)
	}
	if f.noteUnread != nil && report.Denied < len(report.Decisions) {
		f.noteUnread()
	}
	if late == nil && report.Denied > 0 {
		return cli.ErrNegative
	}
	return late
}

// judge judges one request, and the pods that its object makes.
func (f *decideFlags) judge(ctx context.Context, decider usher.Decider, rules []rule.Rule, r Question) (Judgement, error) {
	f.store.Decide(r.Request)
	j, err := judgeWithin(ctx, f.limits.Timeout(), decider, rules, r)
	if err == nil && f.server == "" && j.Allowed {
		j.Pods, err = podChangeOf(ctx, f.limits.Timeout(), decider, r, &j)
	}
	if f.server == "" {
		j.Unsent = j.unsent(&r)
	}
	if j.Pods != nil {
		j.Pods.Invalid = f.invalid(j.Pods.before, j.Pods.after)
	}
	if j.Allowed {
		j.LeftOut, j.Invalid = f.leftOut, f.invalid(j.before, j.Result)
	}
	j.MissingFacts, j.read = f.store.TakeMissing(), f.store.TakeRead()
	return j, err
}

func (f *decideFlags) print(s cli.Streams, report *decideReport) error {
	if f.output.Value == caseOutput {
		return f.printCases(s.Out, report)
	}
	return f.output.Report(s.Out, report, func() error { return report.print(s.Out, f.color.Palette(s.Out), f.server == "") })
}

func (f *decideFlags) validate() error {
	switch {
	case len(f.files)+len(f.named) == 0:
		return errors.New("no objects: name a file, - for the standard input, or an object of the cluster as KIND/NAME with --from-cluster")
	case len(f.policies) == 0 && f.server == "" && !f.fromCluster:
		return errors.New("no policies: name a file or folder with -p, a webhook with --server, or read a cluster with --from-cluster")
	case f.fromCluster && (len(f.facts.Files) > 0 || f.server != ""):
		return errors.New("--from-cluster excludes --facts, which the cluster has, and --server")
	case len(f.policies) > 0 && f.server != "":
		return errors.New("-p and --server exclude each other: the webhook has policies of its own")
	}
	return cmp.Or(f.validateCase(), f.validateCluster(), cli.ReadsStdinOnce(f.policies, f.files, f.old))
}

// decider returns the decider: the policies, with their rules, or a webhook.
func (f *decideFlags) decider(cmd *cobra.Command, s cli.Streams) (usher.Decider, []rule.Rule, error) {
	if f.server != "" {
		d, err := dial(cmd.Context(), f.server, f.caFile, f.wait)
		return d, nil, err
	}
	set, resolver, err := f.loaded(cmd, s)
	if err != nil {
		return nil, nil, err
	}
	return set.Decider(resolver), set.Rules, nil
}

// loaded returns the policies, and the resolver of their facts.
func (f *decideFlags) loaded(cmd *cobra.Command, s cli.Streams) (policies.Set, fact.Resolver, error) {
	load := f.loadedFromFiles
	if f.fromCluster {
		load = f.loadedFromCluster
	}
	set, resolver, err := load(cmd, s)
	f.set = set
	return set, resolver, err
}

func (f *decideFlags) loadedFromFiles(cmd *cobra.Command, s cli.Streams) (policies.Set, fact.Resolver, error) {
	set, err := policies.Usable(cmd, s, f.policies, &f.limits)
	if err != nil {
		return policies.Set{}, nil, err
	}
	var resolver fact.Resolver
	f.facts.Namespace = f.namespace
	if f.store, resolver, err = f.facts.Load(); err == nil {
		f.kinds, err = f.facts.Kinds()
	}
	return set, resolver, err
}
