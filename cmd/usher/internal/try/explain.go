package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

type explainFlags struct {
	decideFlags

	policy string
	cost   bool
	// known are the policies that could be explained.
	known []usher.PolicyRef
}

// Explain returns usher explain.
func Explain(s cli.Streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain {-p POLICIES OBJECTS... | --from-cluster KIND/NAME... | CASES...}",
		Short: "Explain a decision rule by rule: matched by what, on which values, at what cost",
		Long: `Explain decides as 'usher decide' does, and then tells of every rule of every policy whether
it matched and by which clause, or which clause kept it from that: first of those that deny,
last of those that do not match, which are only counted if there are many, unless --policy
names the policy. Of those that matched it tells what their programs looked at and found
there, whether their condition holds, what they said, what they changed, and how long that
took. Of CEL that denied the request or failed it shows the value of each part of the
expression, and the variables, conditions and selectors.

With -p it explains objects and recorded AdmissionReviews, which are named as arguments or
with -f. With --from-cluster it adds the policies of a cluster, also those that its API server
enforces, and facts come from there; an object of the cluster can be named, as for kubectl:
deployment/web, or deployment web, in the namespace that -n names. Without --as, requests are
then those of the user of the kubeconfig. Without either the arguments are files of test cases,
which have their own policies.

Objects that name no namespace are in that of -n, of the kubeconfig with --from-cluster, or in
default, if their kind is in namespaces. They are judged as written, with one of the defaults that API servers set before they ask
policies: the imagePullPolicy of containers. Where a policy reads another one, use the output
of kubectl get -o yaml or kubectl create --dry-run=server -o yaml.

With --cost each rule that matched is run some more times to find out what it takes once
everything is warm: time, allocations and bytes. What it asks of HTTP services by GET is
asked once; other requests are made each time.

To explain the requests of a running server, see --trace-sample, --trace-label and
--trace-annotation of 'usher serve'.

The exit status is 0 if every request is allowed, 1 if one is denied, and 2 if policies,
objects or cases cannot be used.`,
		Example: `  usher explain -p policies/ pod.yaml
  usher explain -p policies/ new.yaml --old old.yaml --cost
  usher explain -p policies/ review.json -o json | jq '.explained[].phases[].rules[] | select(.matched)'
  usher explain -p policies/ pod.yaml --policy require-team
  usher explain --from-cluster deployment/web -n shop --policy require-team
  usher explain cases/too-many-replicas.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.registerDecision(cmd, "text", "json", "yaml")
	cmd.Flags().StringVar(&f.policy, "policy", "", "explain only this policy: NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME")
	cmd.Flags().BoolVar(&f.cost, "cost", false, "measure the time and memory that each rule takes")
	return cmd
}

// An explained is one request.
type explained struct {
	File      string                `json:"file"`
	Name      string                `json:"name"`
	Operation usher.Operation       `json:"operation"`
	Allowed   bool                  `json:"allowed"`
	Phases    []explain.Explanation `json:"phases"`
	caveats
}

type explainReport struct {
	Explained []explained `json:"explained"`
	Denied    int         `json:"denied"`
	asker
	policies.Idle

	// most is how many rules that do not match are listed for people.
	most int
}

func (f *explainFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	var cases []string
	if len(f.policies) == 0 && len(f.files) == 0 && !f.fromCluster {
		cases, args = args, nil
	}
	if err := cmp.Or(f.completeNamed(args), f.validateExplain(cases)); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	report := &explainReport{Explained: []explained{}, most: text.Few}
	if f.policy != "" {
		report.most = math.MaxInt
	}
	var err error
	if len(cases) > 0 {
		err = f.explainCases(cmd.Context(), report, cases)
	} else {
		err = f.explainObjects(cmd, report, s)
	}
	if err == nil {
		err = f.checkPolicy(report)
	}
	if err != nil {
		return err
	}
	if f.noteUnread != nil && report.Denied < len(report.Explained) {
		f.noteUnread()
	}
	err = f.output.Report(s.Out, report, func() error { return report.print(s.Out, f.color.Palette(s.Out)) })
	if err == nil && report.Denied > 0 {
		return cli.ErrNegative
	}
	return err
}

func (f *explainFlags) validateExplain(cases []string) error {
	switch {
	case len(cases) > 0 && len(f.facts.Files)+len(f.old) > 0:
		return errors.New("test cases have their own objects and facts: leave out --old and --facts, or name policies with -p")
	case len(cases) > 0:
		return nil
	case len(f.files)+len(f.named) == 0:
		return errors.New("nothing to explain: name objects, and policies with -p, or files with test cases")
	}
	return f.validate()
}

func (f *explainFlags) explainObjects(cmd *cobra.Command, report *explainReport, s cli.Streams) error {
	set, facts, err := f.loaded(cmd, s)
	if err != nil {
		return err
	}
	requests, err := f.questions(cmd, s)
	if errors.Is(err, objects.ErrNoObject) {
		return fmt.Errorf("%w; test cases bring their own policies: leave out -p and -f for them", err)
	}
	if err != nil {
		return err
	}
	report.asker = f.asker
	report.Idle = f.set.Idle().Only(func(ref usher.PolicyRef) bool {
		f.known = append(f.known, ref)
		return f.policy == "" || rule.Names(f.policy, ref)
	})
	for _, q := range requests {
		f.store.Decide(q.Request)
		j, err := judgeWithin(cmd.Context(), f.limits.Timeout(), atEntry(set.Decider(facts)), nil, q)
		if err != nil {
			return err
		}
		one := explained{File: q.File, Name: j.Name.String(), Operation: j.Operation, Allowed: j.Allowed, caveats: caveats{Unsent: j.unsent(&q), MissingFacts: f.store.TakeMissing(), Presets: j.Presets}}
		if j.Allowed {
			one.LeftOut, one.Invalid = f.leftOut, f.invalid(j.before, j.Result)
		}
		if err := f.explain(cmd.Context(), report, one, set.Rules, facts, j.asked); err != nil {
			return fmt.Errorf("%s: %w", q.File, err)
		}
	}
	return nil
}

// atEntry returns a decider that calls d with the entry to which an API server would send each
// request.
func atEntry(d usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		asked := *r
		asked.Entry = webhookconfig.WholeEntryOf(r)
		return d.Decide(ctx, &asked)
	})
}

func (f *explainFlags) explainCases(ctx context.Context, report *explainReport, paths []string) error {
	cases, err := policytest.Load(paths...)
	if err != nil {
		return fmt.Errorf("%w; to explain objects, name policies with -p, or --from-cluster", err)
	}
	for _, c := range cases {
		_, err := policies.Within(ctx, f.limits.Timeout(), "explain it", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f.explainCase(ctx, report, c)
		})
		if err != nil {
			return fmt.Errorf("%s: case %s: %w", c.File, c.Name, err)
		}
	}
	return nil
}

func (f *explainFlags) explainCase(ctx context.Context, report *explainReport, c *policytest.Case) error {
	c.Roles = Roles
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

// explain adds a request and its decision to the report.
func (f *explainFlags) explain(ctx context.Context, report *explainReport, one explained, rules []rule.Rule, facts fact.Resolver, all []asked) error {
	f.note(rules)
	options := explain.Options{Facts: cached.New(facts, time.Minute), Measure: f.cost}
	for _, a := range all {
		request := *a.request
		request.Entry = webhookconfig.WholeEntryOf(a.request)
		at, _ := rule.ParseEntry(request.Entry)
		e, err := policies.Within(ctx, f.limits.Timeout(), "explain it", func(ctx context.Context) (explain.Explanation, error) {
			return explain.Of(ctx, at.Of(rules), &request, a.decision, options)
		})
		if err != nil {
			return err
		}
		if f.policy != "" {
			e.Rules = named(e.Rules, f.policy)
			e.Warnings = slices.DeleteFunc(slices.Clone(e.Warnings), func(w string) bool { return ofOthers(w, rules, f.policy) })
		}
		one.Phases = append(one.Phases, e)
	}
	report.Explained = append(report.Explained, one)
	if !one.Allowed {
		report.Denied++
	}
	return nil
}

// note remembers the policies that --policy can select.
func (f *explainFlags) note(rules []rule.Rule) {
	for i := range rules {
		if ref := rules[i].Policy; ref.Name != "" && !slices.Contains(f.known, ref) {
			f.known = append(f.known, ref)
		}
	}
}

// checkPolicy returns an error if --policy names none of the evaluated policies.
func (f *explainFlags) checkPolicy(report *explainReport) error {
	if f.policy == "" || len(report.Explained) == 0 {
		return nil
	}
	unknown := rule.Unknown(f.policy, f.known)
	if unknown == "" {
		return nil
	}
	if unknown == "there is no policy "+f.policy {
		names := make([]string, 0, len(f.known))
		for _, ref := range f.known {
			names = append(names, ref.Name)
		}
		slices.Sort(names)
		unknown += "; the policies are " + strings.Join(slices.Compact(names), ", ")
	}
	return errors.New("--policy: " + unknown)
}

// named returns the rules of the policies with a name.
func named(rules []explain.Rule, name string) []explain.Rule {
	kept := []explain.Rule{}
	for _, r := range rules {
		if rule.Names(name, r.Policy) {
			kept = append(kept, r)
		}
	}
	return kept
}

// ofOthers reports whether a warning names policies, and none that --policy selects.
func ofOthers(warning string, rules []rule.Rule, name string) bool {
	others := false
	for i := range rules {
		switch policy := rules[i].Policy; {
		case !mentions(warning, policy):
		case rule.Names(name, policy):
			return false
		default:
			others = true
		}
	}
	return others
}

// mentions reports whether a text names a policy, as Usher does or as API servers do.
func mentions(text string, policy usher.PolicyRef) bool {
	for rest, found := text, policy.Name != ""; found; {
		_, rest, found = strings.Cut(rest, policy.String())
		// Otherwise it is the beginning of another name.
		if name := strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz0123456789-."); found && name == rest {
			return true
		}
	}
	return strings.Contains(text, policy.Kind+" '"+policy.Name+"'")
}
