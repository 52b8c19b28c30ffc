package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/explain"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/policytest"
	"github.com/usher-dev/usher/rule"
)

type explainFlags struct {
	decideFlags

	policy string
	cost   bool
}

// Explain returns usher explain.
func Explain(s cli.Streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain -p POLICIES -f OBJECTS | CASES",
		Short: "Explain a decision rule by rule: matched by what, on which values, at what cost",
		Long: `Explain decides as 'usher decide' does, and then tells of every rule of every policy whether
it matched and by which clause, or which clause kept it from that; of those that matched, what
their programs looked at and found there, whether their condition holds, what they said, what
they changed, and how long that took.

It explains objects and recorded AdmissionReviews, with policies given by -p, or the requests
of test cases, which bring their own policies.

With --cost each rule that matched is run some more times to find out what it takes once
everything is warm: time, allocations and bytes. What it asks of HTTP services by GET is
asked once; other requests are made each time.

To explain requests of a running server as they come, see --trace-sample and its siblings
of 'usher serve'.

The exit status is 0 if every request is allowed, 1 if one is denied, and 2 if policies,
objects or cases cannot be used.`,
		Example: `  usher explain -p policies/ -f pod.yaml
  usher explain -p policies/ -f new.yaml --old old.yaml --cost
  usher explain -p policies/ -f review.json -o json | jq '.explained[].phases[].rules[] | select(.matched)'
  usher explain -p policies/ -f pod.yaml --policy require-team
  usher explain cases/too-many-replicas.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.policies, "policies", "p", nil, "file or folder with policies (repeatable)")
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file or folder with objects or AdmissionReviews, - for the standard input (repeatable)")
	f.registerQuestion(cmd)
	flags.StringArrayVar(&f.facts, "facts", nil, "file or folder with objects that exist in the cluster (repeatable)")
	f.limits.Register(flags)
	flags.BoolVar(&f.allowLocalFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
	flags.StringVar(&f.policy, "policy", "", "tell only of policies with this name")
	flags.BoolVar(&f.cost, "cost", false, "measure what each rule costs")
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
	return cmd
}

// An explained is one request.
type explained struct {
	File      string                `json:"file"`
	Name      string                `json:"name"`
	Operation usher.Operation       `json:"operation"`
	Allowed   bool                  `json:"allowed"`
	Phases    []explain.Explanation `json:"phases"`
}

type explainReport struct {
	Explained []explained `json:"explained"`
	Denied    int         `json:"denied"`
}

func (f *explainFlags) run(cmd *cobra.Command, s cli.Streams, cases []string) error {
	if err := f.validateExplain(cases); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	report := &explainReport{Explained: []explained{}}
	var err error
	if len(cases) > 0 {
		err = f.explainCases(cmd.Context(), report, cases)
	} else {
		err = f.explainObjects(cmd.Context(), report, s)
	}
	if err != nil {
		return err
	}
	if f.output.Value == "text" {
		err = report.print(s.Out, f.color.Palette(s.Out))
	} else {
		err = f.output.Encode(s.Out, report)
	}
	if err == nil && report.Denied > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *explainFlags) validateExplain(cases []string) error {
	switch {
	case len(cases) > 0 && len(f.files)+len(f.policies)+len(f.facts)+len(f.old) > 0:
		return errors.New("test cases bring their own policies, objects and facts: leave out -p, -f, --old and --facts")
	case len(cases) > 0:
		return nil
	case len(f.files) == 0:
		return errors.New("nothing to explain: name objects with -f, or files with test cases")
	}
	return f.validate()
}

func (f *explainFlags) explainObjects(ctx context.Context, report *explainReport, s cli.Streams) error {
	set, facts, err := f.loaded(s)
	if err != nil {
		return err
	}
	requests, err := f.requests(s)
	if err != nil {
		return err
	}
	for _, q := range requests {
		j := Judge(ctx, atEntry(set.Decider(facts)), nil, q)
		one := explained{File: q.File, Name: j.Name.String(), Operation: j.Operation, Allowed: j.Allowed}
		if err := f.explain(ctx, report, one, set.Rules, facts, j.asked); err != nil {
			return fmt.Errorf("%s: %w", q.File, err)
		}
	}
	return nil
}

// atEntry has d asked at the entry that an API server would ask about each request.
func atEntry(d usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		asked := *r
		asked.Entry = live.EntryOf(r)
		return d.Decide(ctx, &asked)
	})
}

func (f *explainFlags) explainCases(ctx context.Context, report *explainReport, paths []string) error {
	cases, err := policytest.Load(paths...)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if err := f.explainCase(ctx, report, c); err != nil {
			return fmt.Errorf("%s: case %s: %w", c.File, c.Name, err)
		}
	}
	return nil
}

func (f *explainFlags) explainCase(ctx context.Context, report *explainReport, c *policytest.Case) error {
	setup, err := c.Setup(ctx)
	if err != nil {
		return err
	}
	defer setup.Close()
	request, err := c.Request.For(c.Phase)
	if err != nil {
		return err
	}
	decision, err := setup.Decider.Decide(ctx, request)
	if err != nil {
		decision = undecided(err)
	}
	one := explained{File: c.File, Name: "case " + c.Name, Operation: request.Operation, Allowed: decision.Verdict != usher.Deny}
	return f.explain(ctx, report, one, setup.Rules, setup.Facts, []asked{{request, decision}})
}

// explain adds a request and what was decided about it to the report.
func (f *explainFlags) explain(ctx context.Context, report *explainReport, one explained, rules []rule.Rule, facts fact.Resolver, all []asked) error {
	options := explain.Options{Facts: cached.New(facts, time.Minute), Measure: f.cost}
	for _, a := range all {
		request := *a.request
		request.Entry = live.EntryOf(a.request)
		at, _ := rule.ParseEntry(request.Entry)
		e, err := explain.Of(ctx, at.Of(rules), &request, a.decision, options)
		if err != nil {
			return err
		}
		if f.policy != "" {
			e.Rules = named(e.Rules, f.policy)
		}
		one.Phases = append(one.Phases, e)
	}
	report.Explained = append(report.Explained, one)
	if !one.Allowed {
		report.Denied++
	}
	return nil
}

// named are the rules of the policies with a name.
func named(rules []explain.Rule, name string) []explain.Rule {
	kept := []explain.Rule{}
	for _, r := range rules {
		if r.Policy.Name == name || cmp.Or(r.Policy.Namespace, name) != name && r.Policy.Namespace+"/"+r.Policy.Name == name {
			kept = append(kept, r)
		}
	}
	return kept
}
