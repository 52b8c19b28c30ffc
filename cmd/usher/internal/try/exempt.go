package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

type exemptFlags struct {
	decideFlags

	exemption exemptionOptions
	lasts     cli.Duration
	until     string
	ifDenied  bool
	chosen    chosen
	// missing are the facts that were taken to be absent.
	missing []string
	// lacks says that a rule failed because an object of a file has no such field.
	lacks bool
}

// Exempt returns usher exempt.
func Exempt(s cli.Streams) *cobra.Command {
	var f exemptFlags
	cmd := &cobra.Command{
		Use:   "exempt {-p POLICIES -f REFUSED | --from-cluster KIND/NAME} --reason WHY --owner WHO",
		Short: "Write an exemption for a request that policies refuse",
		Long: `Exempt decides requests as 'usher decide' does, and prints an exemption for each that is
refused, as YAML: from the policies that refuse it, and from no more of their validations than
necessary; for this object, in its namespace; until it expires. It then decides again with
the exemption, and writes only one that helps.

Requests are objects or recorded AdmissionReviews. Without -p and --from-cluster, the files
are case files of 'usher test', which bring their policies. With --from-cluster an object of
the cluster can be named, as for kubectl: deployment/web, or deployment web; requests are then
those of the user of the kubeconfig, or of the one whom --as names. Objects of files are judged
as written: of the defaults that API servers set, they get the imagePullPolicy.

If the pods of a workload are refused, the exemption is for the workload and all of its pods,
by their owner: rollouts and jobs that follow have it, too. So is the exemption of a pod that
has an owner. Anyone who may create pods in the namespace can name an owner.

With --if-denied it is also for policies that only warn or audit, as if they denied, so that
it is there before they do. With --policy it is from these policies alone.

If only ObjectPolicies of the namespace refuse the request, it is a PolicyExemption of the
namespace, otherwise a ClusterPolicyExemption, which counts for every policy. With --namespaced
it is a PolicyExemption in any case, which also counts for a ClusterObjectPolicy with
namespaceExemptions: Allow. Who applies it needs the verb exempt on each policy that it names.

The exemption of an object that is created is also for its updates. If the name is generated,
it is for all objects with the same generateName.

The exit status is 0 if exemptions were written, 1 if no request is refused or no exemption
helps, and 2 if policies or objects cannot be used.`,
		Example: `  usher exempt -p policies/ -f pod.yaml --reason "image is rebuilt in May" --owner team-a --for 7d
  usher exempt --from-cluster deployment/web -n shop --reason "until the next release" --owner team-a
  usher exempt --from-cluster -f refused.yaml --reason migration --owner team-a --until 2030-01-31 | kubectl apply -f -
  usher exempt --from-cluster deployment/web -n shop --if-denied --reason "until the next release" --owner team-a
  usher exempt -p policies/ -f pod.yaml --image 'registry.example/legacy:*' --reason legacy --owner team-a
  usher exempt -p policies/ -f review.json --namespaced --action Warn --reason pilot --owner team-a
  usher exempt -f cases/no-latest.yaml --reason "as the case says" --owner team-a`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.registerInput(cmd)
	flags := cmd.Flags()
	x := &f.exemption
	flags.StringVar(&x.reason, "reason", "", "why the exemption is needed")
	flags.StringVar(&x.owner, "owner", "", "whom to ask about the exemption")
	f.lasts = cli.Duration(7 * 24 * time.Hour)
	flags.Var(&f.lasts, "for", "how long the exemption lasts from now on, such as 7d or 36h")
	flags.StringVar(&f.until, "until", "", "when the exemption expires: a date, or a time such as 2030-01-31T12:00:00Z; in place of --for")
	flags.BoolVar(&f.ifDenied, "if-denied", false, "take policies that warn or audit as if they denied")
	flags.StringArrayVar((*[]string)(&f.chosen), "policy", nil, "exempt only from this policy, whatever others refuse: NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME (repeatable)")
	flags.BoolVar(&x.namespaced, "namespaced", false, "write a PolicyExemption in the namespace of the object")
	flags.StringVar(&x.action, "action", string(v1alpha1.ExemptionActionSkip), "what follows instead of the denial: Skip, Warn or Audit")
	cli.Offer(cmd, "action", string(v1alpha1.ExemptionActionSkip), string(v1alpha1.ExemptionActionWarn), string(v1alpha1.ExemptionActionAudit))
	flags.StringArrayVar(&x.images, "image", nil, "exempt only containers with this image, which may contain one * (repeatable)")
	flags.StringVar(&x.name, "exemption-name", "", "name of the exemption (default: from the policy, the namespace and the object, with a hash of what is exempt)")
	return cmd
}

func (f *exemptFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	if err := cmp.Or(f.completeNamed(args), f.validate(), f.ends(time.Now())); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	if until := time.Until(f.exemption.expires); until > rule.LongestExemption+time.Minute {
		cli.Notef(cmd, s, "warning", "the exemption would last for %d days: Usher does not admit more than %d, unless --max-exemption-duration of its servers is longer",
			int(until.Round(24*time.Hour).Hours()/24), int(rule.LongestExemption.Hours()/24))
	}
	deciding, err := f.deciding(cmd, s)
	if err != nil {
		return err
	}
	if f.noteUnread != nil {
		f.noteUnread()
	}
	var written []exemption
	failed := false
	for i := range deciding {
		x, err := deciding[i].exempt(cmd.Context(), f.exemption)
		switch {
		case errors.Is(err, errNeedless) && len(f.leftOut) > 0:
			fmt.Fprintf(s.Err, "usher: %s: %s (the message of the denial names the policy; anyone who administers the cluster can exempt it)%s\n",
				deciding[i].about, policies.Unread(f.leftOut), f.unseen())
		case errors.Is(err, errAllowed):
			fmt.Fprintf(s.Err, "usher: %s is %v%s\n", deciding[i].about, err, f.unseen())
		case errors.Is(err, errNoHelp):
			failed = true
			fmt.Fprintf(s.Err, "usher: %s: %v\n", deciding[i].about, err)
		case err != nil:
			return fmt.Errorf("%s: %w", deciding[i].about, err)
		case !slices.ContainsFunc(written, x.same):
			written = append(written, x)
			if w := deciding[i].workload; w != nil && w.kind == "CronJob" {
				cli.Notef(cmd, s, "note", "exempt are the pods of the Jobs that CronJob %s makes by its schedule, not those of a Job that somebody creates from it", w.name)
			}
		}
	}
	// What is refused, and whether, may depend on what is not known.
	var hints strings.Builder
	printMissing(&hints, "", "", "--facts", f.missing, f.color.Palette(s.Err))
	if _, err := io.WriteString(s.Err, hints.String()); err != nil {
		return err
	}
	if f.lacks {
		objects.NoteDefaults(cmd, s)
	}
	if err := printExemptions(s.Out, written); err != nil {
		return err
	}
	if failed || len(written) == 0 {
		return cli.ErrNegative
	}
	return nil
}

// unseen says which policies may refuse what those that were read allow, and that they may refuse it to others.
func (f *exemptFlags) unseen() string {
	by := ""
	if f.asker.User != nil {
		by = "; this is for " + f.asker.whom() + ": name who is refused with --as"
	}
	if !f.fromCluster || len(f.policies) > 0 {
		return by
	}
	return by + "; policies that Usher reads from files are not seen here: name these files with -p"
}

func (f *exemptFlags) validate() error {
	switch {
	case len(f.files)+len(f.named) == 0:
		return errors.New("no objects: name a file with -f, or - for the standard input, or an object of the cluster as KIND/NAME with --from-cluster")
	case f.exemption.reason == "":
		return errors.New("--reason is missing: say why the exemption is needed")
	case f.exemption.owner == "":
		return errors.New("--owner is missing: name the person or the team to ask about the exemption")
	case f.ifDenied && len(f.policies) == 0 && !f.fromCluster:
		return errors.New("--if-denied is for -p and --from-cluster: case files have their policies as they are")
	case len(f.chosen) > 0 && len(f.policies) == 0 && !f.fromCluster:
		return errors.New("--policy is for -p and --from-cluster: of a case file, the exemption is from all of its policies")
	case f.fromCluster && len(f.facts.Files) > 0:
		return errors.New("--from-cluster excludes --facts, which the cluster has")
	}
	return cmp.Or(f.validateCluster(), cli.ReadsStdinOnce(f.policies, f.files, f.old))
}

// ends determines when the exemptions end.
func (f *exemptFlags) ends(now time.Time) error {
	end := now.Add(time.Duration(f.lasts))
	if f.until != "" {
		var err error
		if end, err = time.Parse(time.RFC3339, f.until); err != nil {
			if end, err = time.Parse(time.DateOnly, f.until); err != nil {
				return fmt.Errorf("--until %s: expected a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z", f.until)
			}
		}
	}
	if !end.After(now) {
		return fmt.Errorf("the exemption would end at %s, which is past: name a later time with --for or --until", end.UTC().Format(time.RFC3339))
	}
	f.exemption.expires = end.UTC().Truncate(time.Second)
	return nil
}

// A decided is one request that can be decided again with an exemption.
type decided struct {
	about string
	// workload is what makes the pods that the request is for; nil if nothing does.
	workload *workload
	// unplaced says that the request names no namespace, and is of a kind that may be in one.
	unplaced bool
	decide   decideFunc
}

// A decideFunc decides a request with more policies.
type decideFunc func(context.Context, ...api.Policy) (verdict, error)

// A verdict is a decision of a request, by rules.
type verdict struct {
	usher.Decision

	request *usher.Request
	rules   []rule.Rule
	// others are the policies because of which the request is refused, if none of those is that were chosen.
	others []string
}

// deciding returns the requests of the command line.
func (f *exemptFlags) deciding(cmd *cobra.Command, s cli.Streams) ([]decided, error) {
	if len(f.policies) == 0 && !f.fromCluster {
		return f.cases()
	}
	set, facts, err := f.loaded(cmd, s)
	if err != nil {
		return nil, err
	}
	if err := f.chosen.check(set.Deciding()); err != nil {
		return nil, err
	}
	set.NoteIdle(cmd, s)
	if f.ifDenied {
		if set, err = set.Denying(cmd.Context()); err != nil {
			return nil, err
		}
	}
	questions, err := f.questions(cmd, s)
	if err != nil {
		return nil, err
	}
	all := make([]decided, len(questions))
	for i, q := range questions {
		if err := f.placed(q); err != nil {
			return nil, err
		}
		if all[i], err = f.decided(cmd.Context(), set, facts, q); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// placed returns an error if nobody says in which namespace the object of a request is: its exemption would be for all.
func (f *exemptFlags) placed(q Question) error {
	const unplaced = "%s names no namespace, and its exemption would be for all: name its namespace with -n"
	if q.recorded || q.Request.Namespace != "" && !q.unplaced {
		return nil
	}
	if _, known := f.scopeOf(q.Request); !known {
		return fmt.Errorf(unplaced+", or the file with the CustomResourceDefinition of its kind with --facts", nameOf(q.Request))
	}
	if q.unplaced {
		return fmt.Errorf(unplaced, nameOf(q.Request))
	}
	return nil
}

// decided returns a request that can be decided again. A workload whose pods are refused is decided
// with the request that creates one of them.
func (f *exemptFlags) decided(ctx context.Context, set policies.Set, facts fact.Resolver, q Question) (decided, error) {
	d := decided{about: aboutRequest(q.Request), workload: ownerOf(q.Request), unplaced: f.mayBePlaced(q.Request), decide: f.deciderOf(set, facts, q)}
	if why := q.unsent(); why != "" {
		d.decide = func(context.Context, ...api.Policy) (verdict, error) {
			return verdict{}, fmt.Errorf("%w: API servers do not send this request to Usher: %s", errAllowed, why)
		}
		return d, nil
	}
	w, created := workloadOf(q.Request)
	pod := Question{File: q.File, Request: created, registered: q.registered}
	if w == nil || pod.unsent() != "" {
		return d, nil
	}
	ofPod := f.deciderOf(set, facts, pod)
	v, err := ofPod(ctx)
	if err != nil || v.Verdict != usher.Deny {
		return d, err
	}
	alone := d.decide
	return decided{about: d.about, workload: w, decide: func(ctx context.Context, more ...api.Policy) (verdict, error) {
		v, err := alone(ctx, more...)
		if err != nil || v.Verdict == usher.Deny {
			return v, err
		}
		return ofPod(ctx, more...)
	}}, nil
}

// mayBePlaced reports whether a request names no namespace, and its object may be in one.
func (f *exemptFlags) mayBePlaced(r *usher.Request) bool {
	namespaced, known := f.scopeOf(r)
	return r.Namespace == "" && (namespaced || !known)
}

// deciderOf returns what decides a request with more policies.
func (f *exemptFlags) deciderOf(set policies.Set, facts fact.Resolver, q Question) decideFunc {
	return func(ctx context.Context, more ...api.Policy) (verdict, error) {
		with := set
		for _, policy := range more {
			var errs []rule.Problem
			var err error
			if with, errs, err = with.With(ctx, policy); err != nil {
				return verdict{}, err
			}
			if len(errs) > 0 {
				return verdict{}, fmt.Errorf("%w: %s", errNoHelp, errs[0].Text())
			}
		}
		j, err := judgeWithin(ctx, f.limits.Timeout(), with.Decider(facts), with.Rules, q)
		if err != nil {
			return verdict{}, err
		}
		// An exemption asks for the Namespace that it names, whatever labels it has.
		if missing := f.store.TakeMissing(); len(more) == 0 {
			f.missing = slices.Compact(slices.Sorted(slices.Values(append(f.missing, missing...))))
			f.lacks = f.lacks || !f.fromCluster && j.lacks()
		}
		if len(j.asked) == 0 {
			return verdict{}, errors.New(j.Message)
		}
		// The first request has no name that is generated in between.
		return f.chosen.of(verdict{Decision: j.asked[len(j.asked)-1].decision, request: j.asked[0].request, rules: with.Rules}), nil
	}
}

// cases returns the requests of case files.
func (f *exemptFlags) cases() ([]decided, error) {
	limits, err := f.limits.Limits()
	if err != nil {
		return nil, err
	}
	cases, err := policytest.Load(f.files...)
	if err != nil {
		return nil, fmt.Errorf("%w (for objects and AdmissionReviews, name policies with -p or --from-cluster)", err)
	}
	all := make([]decided, len(cases))
	for i, c := range cases {
		c.Limits, c.Roles = limits, Roles
		r, err := c.Request.For(c.Phase)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		if namespaced, _ := f.scopeOf(r); namespaced && r.Namespace == "" {
			return nil, fmt.Errorf("%s: the case has no request.namespace, and the exemption would be for all: write it into the case", c.Name)
		}
		all[i] = decided{about: c.Name, unplaced: f.mayBePlaced(r), decide: func(ctx context.Context, more ...api.Policy) (verdict, error) {
			return decideCase(ctx, c, more)
		}}
	}
	return all, nil
}

func decideCase(ctx context.Context, c *policytest.Case, more []api.Policy) (verdict, error) {
	with := *c
	for _, policy := range more {
		tree, err := treeOf(policy)
		if err != nil {
			return verdict{}, err
		}
		with.Policies = append(slices.Clip(with.Policies), tree)
	}
	setup, err := with.Setup(ctx)
	if err != nil {
		return verdict{}, err
	}
	defer setup.Close()
	r, err := c.Request.For(c.Phase)
	if err != nil {
		return verdict{}, err
	}
	d, err := setup.Decider.Decide(ctx, r)
	return verdict{Decision: d, request: r, rules: setup.Rules}, err
}
