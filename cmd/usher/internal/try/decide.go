// Package try has the commands that try policies on objects, requests and test cases.
package try

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/rule"
)

type decideFlags struct {
	policies, files, old []string
	facts                []string
	allowLocalFacts      bool
	limits               policies.Limits
	server, caFile       string
	wait                 time.Duration

	operation string
	namespace string
	user      string
	groups    []string
	dryRun    bool

	output cli.OutputFlag
	color  cli.ColorFlag
}

// Decide returns usher decide.
func Decide(s cli.Streams) *cobra.Command {
	var f decideFlags
	cmd := &cobra.Command{
		Use:   "decide -p POLICIES -f OBJECTS",
		Short: "Show what policies do with objects, and why",
		Long: `Decide asks what an API server would ask when each object is written: first what to
change about it, then whether the result may be stored. It prints the verdict, the rules
that matched, those that nearly did with the clause that kept them from it, and a diff of
what was changed. Objects can be lists, several documents, or recorded AdmissionReviews,
which bring their own operation, user and old object.

With --server it asks a running webhook in place of policies; that one tells the verdict
and the changes, but not the rules.

The exit status is 0 if every object is allowed, 1 if one is denied, and 2 if policies or
objects cannot be used.`,
		Example: `  usher decide -p policies/ -f pod.yaml
  usher decide -p policies/ -f new.yaml --old old.yaml --operation UPDATE
  usher decide -p policies/ -f pod.yaml --operation DELETE --user jane --group dev
  kubectl get pods -A -o yaml | usher decide -p policies/ -f -
  usher decide -p policies/ -f review.json -o json | jq '.decisions[].patch'
  usher decide --server https://127.0.0.1:8443 --ca-file ca.crt -f pod.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.policies, "policies", "p", nil, "file or folder with policies (repeatable)")
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file or folder with objects or AdmissionReviews, - for the standard input (repeatable)")
	f.registerQuestion(cmd)
	flags.StringArrayVar(&f.facts, "facts", nil, "file or folder with objects that exist in the cluster (repeatable)")
	f.limits.Register(flags)
	flags.BoolVar(&f.allowLocalFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
	flags.StringVar(&f.server, "server", "", "ask the webhook at this URL")
	flags.StringVar(&f.caFile, "ca-file", "", "certificates to trust for --server, in PEM")
	flags.DurationVar(&f.wait, "wait", 15*time.Second, "how long to wait for --server to become ready")
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
	return cmd
}

// registerQuestion adds the flags that say what is asked about the objects.
func (f *decideFlags) registerQuestion(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.operation, "operation", "", "CREATE, UPDATE, DELETE or CONNECT (CREATE, or UPDATE with --old)")
	cli.Offer(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	flags.StringArrayVar(&f.old, "old", nil, "file or folder with the objects as they were before an UPDATE (repeatable)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the request, for objects that have none")
	flags.StringVar(&f.user, "user", "", "name of the user who asks")
	flags.StringArrayVar(&f.groups, "group", nil, "group of the user (repeatable)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say that the request is a dry run")
}

func (f *decideFlags) run(cmd *cobra.Command, s cli.Streams) error {
	if err := f.validate(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	decider, rules, err := f.decider(cmd.Context(), s)
	if err != nil {
		return err
	}
	requests, err := f.requests(s)
	if err != nil {
		return err
	}
	report := decideReport{}
	for _, r := range requests {
		report.add(Judge(cmd.Context(), decider, rules, r))
	}
	if f.output.Value == "text" {
		err = report.print(s.Out, f.color.Palette(s.Out), f.server == "")
	} else {
		err = f.output.Encode(s.Out, report)
	}
	if err == nil && report.Denied > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *decideFlags) validate() error {
	f.operation = strings.ToUpper(f.operation)
	switch {
	case len(f.files) == 0:
		return errors.New("no objects: name a file with -f, or -f - for the standard input")
	case len(f.policies) == 0 && f.server == "":
		return errors.New("no policies: name a file or folder with -p, or a webhook with --server")
	case len(f.policies) > 0 && f.server != "":
		return errors.New("-p and --server exclude each other: the webhook has policies of its own")
	case f.operation == "" && len(f.old) > 0:
		f.operation = string(usher.Update)
	case f.operation == "":
		f.operation = string(usher.Create)
	}
	return checkOperation(f.operation, f.old)
}

// checkOperation refuses operations that there are not, and old objects for those that have
// none.
func checkOperation(operation string, old []string) error {
	if !slices.Contains(usher.Operations(), usher.Operation(operation)) {
		return fmt.Errorf("--operation %s: use one of CREATE, UPDATE, DELETE, CONNECT", operation)
	}
	if len(old) > 0 && operation != string(usher.Update) {
		return fmt.Errorf("--old is for --operation UPDATE, not %s", operation)
	}
	return nil
}

// decider is what decides: the policies, with their rules, or a webhook.
func (f *decideFlags) decider(ctx context.Context, s cli.Streams) (usher.Decider, []rule.Rule, error) {
	if f.server != "" {
		d, err := dial(ctx, f.server, f.caFile, f.wait)
		return d, nil, err
	}
	set, facts, err := f.loaded(s)
	if err != nil {
		return nil, nil, err
	}
	return set.Decider(facts), set.Rules, nil
}

// loaded are the policies, and what they get facts from.
func (f *decideFlags) loaded(s cli.Streams) (policies.Set, fact.Resolver, error) {
	set, err := policies.Usable(s, f.policies, &f.limits)
	if err != nil {
		return policies.Set{}, nil, err
	}
	trees, err := object.Load(f.facts...)
	if err != nil {
		return policies.Set{}, nil, fmt.Errorf("--facts: %w", err)
	}
	return set, fact.Route(object.FromTrees(trees), policies.HTTPFacts(f.allowLocalFacts)), nil
}
