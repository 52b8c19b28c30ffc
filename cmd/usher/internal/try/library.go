package try

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/library"
)

type libraryFlags struct {
	requestFlags
	clusterFlags
	packs.Flags

	facts  facts.Flags
	limits policies.Limits
	output cli.OutputFlag
	color  cli.ColorFlag
	// summary leaves out the objects.
	summary bool
	judge   JudgeCluster
}

// Library returns usher library try, with what judges the objects of a cluster.
func Library(s cli.Streams, judge JudgeCluster) *cobra.Command {
	f := libraryFlags{judge: judge}
	cmd := &cobra.Command{
		Use:   "try [PACK|POLICY...] [-f OBJECTS] [--from-cluster]",
		Short: "Say what policies of packs would refuse and change, before they are installed",
		Long: `Try decides objects by policies of packs as if these denied what they warn of, and by no
others; without names, by those of all packs. It prints what each policy says about each
object, and a table with how many objects it would refuse or change in which namespace.
A policy for pods admits a workload with a warning, and refuses its pods: these are counted
apart, and so are workloads whose pods would be changed.

Exemptions count that are among the objects of -f and --facts or, with --from-cluster, in the
cluster: what they exempt is not refused.

What the policies of one pack change is not changed for those of others: you may install
one without the other.

Some policies read other objects, such as the Namespace: --facts names files with those
that exist, and with --from-cluster they come from a cluster. Nothing is written to it.

With --from-cluster and without -f the objects, too, are those of the cluster, of all kinds
that the policies are for, as if each were created now: see 'usher audit'. With -n these are
the objects of one namespace, for which the rights of a user of that namespace suffice: a note
says which kinds they may not list.

The exit status is 0 if nothing would be refused, 1 if something would be, a policy fails or
a kind cannot be read, and 2 if policies or objects cannot be used.`,
		Example: `  usher library try pod-security-restricted -f deployment.yaml
  usher library try -f manifests/ --summary
  usher library try supply-chain networking -f manifests/ --params 'registries=[registry.acme.example]'
  usher library try pod-security-baseline --from-cluster --summary
  usher library try supply-chain --from-cluster -n shop -o json | jq '.policies'
  helm template shop chart/ | usher library try reliability -f - --from-cluster`,
		ValidArgsFunction: f.Complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.requestFlags.register(cmd, "")
	cmd.Flags().Lookup("namespace").Usage = "namespace of the request; for objects that have none, or the one to read --from-cluster"
	f.clusterFlags.registerIn(cmd.Flags(), "; facts come from it, and objects without -f")
	f.Flags.Register(cmd)
	f.RegisterSettings(cmd)
	f.limits.RegisterTimeout(cmd)
	f.facts.Register(cmd.Flags())
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
	cmd.Flags().BoolVar(&f.summary, "summary", false, "print only the table, and not what is said of each object")
	return cmd
}

func (f *libraryFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	if err := cmp.Or(f.complete(nil), f.validate(cmd)); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	if len(args) == 0 {
		all, err := f.Packs()
		if err != nil {
			return err
		}
		for _, pack := range all {
			args = append(args, pack.Name)
		}
	}
	chosen, settings, err := f.Select(args)
	if err != nil {
		return err
	}
	stored, err := packs.Decode(chosen, settings)
	if err != nil {
		return err
	}
	var requests []Question
	if !f.readsObjects() {
		if requests, err = f.requests(cmd, s); err != nil {
			return err
		}
	}
	exemptions, err := f.exemptions(cmd, s)
	if err != nil {
		return err
	}
	set, err := policies.UsableWith(cmd, s, nil, append(stored, exemptions...), &f.limits)
	if err != nil {
		return err
	}
	parts := partsOf(set, chosen)
	report := newLibraryReport(chosen, settings, set.Rules)
	report.summary = f.summary
	if f.readsObjects() {
		err = f.tryCluster(cmd, s, parts, report)
	} else {
		err = f.tryFiles(cmd, s, requests, parts, report)
	}
	if err != nil {
		return err
	}
	err = f.output.Report(s.Out, report, func() error { return report.print(s.Out, f.color.Palette(s.Out)) })
	if err == nil && report.Refused+report.RefusedPods+len(report.Unread) > 0 {
		return cli.ErrNegative
	}
	return err
}

// tryFiles adds what the policies say about the objects of files.
func (f *libraryFlags) tryFiles(cmd *cobra.Command, s cli.Streams, requests []Question, parts []part, report *libraryReport) error {
	f.noteWritten(cmd, s, requests)
	resolver, known, err := f.resolver()
	if err != nil {
		return err
	}
	f.know(known, requests)
	for i := range parts {
		parts[i].decider = parts[i].Decider(resolver)
	}
	lacks := false
	for _, q := range requests {
		var o triedObject
		known.Decide(q.Request)
		for i := range parts {
			if err := parts[i].try(cmd.Context(), q, &o); err != nil {
				return err
			}
			report.addMissing(known.TakeMissing(), o.ran)
		}
		report.addTried(&o)
		lacks = lacks || o.lacks
	}
	if lacks && !f.fromCluster {
		objects.NoteDefaults(cmd, s)
	}
	report.Read = len(requests)
	report.finish()
	return nil
}

func (f *libraryFlags) validate(cmd *cobra.Command) error {
	switch {
	case f.readsObjects():
		return validateReading(cmd)
	case len(f.files) == 0:
		return errors.New("no objects: name a file or folder with -f, or - for the standard input, or read a cluster with --from-cluster")
	case f.fromCluster && len(f.facts.Files) > 0:
		return errors.New("--from-cluster excludes --facts, which the cluster has")
	}
	return cmp.Or(f.validateCluster(), cli.ReadsStdinOnce(f.files, f.old))
}

// resolver returns where facts come from. The store is nil if that is a cluster.
func (f *libraryFlags) resolver() (fact.Resolver, *facts.Store, error) {
	if !f.fromCluster {
		known, resolver, err := f.facts.Load()
		return resolver, known, err
	}
	clients, err := f.connect()
	if err != nil {
		return nil, nil, err
	}
	return f.facts.FromCluster(clients), nil, nil
}

// A libraryReport is what policies of packs say about objects.
type libraryReport struct {
	// Objects are those of files, or those of a cluster that policies have something to say about.
	Objects []triedObject `json:"objects"`
	// Read is how many objects were read, and Kinds how many kinds these are of in a cluster.
	Read  int `json:"read"`
	Kinds int `json:"kinds,omitempty"`
	// Policies are the policies with something to say, in the order of the packs, by namespace.
	Policies []triedPolicy `json:"policies"`
	// Refused, RefusedPods, Changed and ChangedPods are numbers of objects: those that would be refused,
	// those whose pods would be refused, also if other policies refuse the object, those that would be
	// changed, and those whose pods would be.
	Refused     int `json:"refused"`
	RefusedPods int `json:"refusedPods"`
	Changed     int `json:"changed"`
	ChangedPods int `json:"changedPods"`
	// Tried is how many policies were tried.
	Tried int `json:"tried"`
	// MissingFacts are objects that policies read and that are not known.
	MissingFacts []string `json:"missingFacts,omitempty"`
	// Unread are the kinds that cannot be read from a cluster, and NotJudged the rules that say
	// nothing about objects without a request.
	Unread    []string         `json:"unread,omitempty"`
	NotJudged []judge.Unjudged `json:"notJudged,omitempty"`
	// LeftOut are the kinds that a user of the namespace may not list.
	LeftOut []string `json:"leftOut,omitempty"`

	// readers are the policies that read each of the missing facts.
	readers map[string][]string
	order   map[string]int
	// chosen are the policies, and settings what the command line sets of them.
	chosen   []library.Policy
	settings []library.Settings
	summary  bool
	rules    []rule.Rule
}

type triedObject struct {
	File    string          `json:"file,omitempty"`
	Name    result.Identity `json:"object"`
	Says    []said          `json:"says,omitempty"`
	Changes []string        `json:"changes,omitempty"`
	// ChangesPods are the policies that would change the pods which the object has made.
	ChangesPods []string `json:"changesPods,omitempty"`

	// ran are the policies that are for the object, and lacks says that one fails because the object has no such field.
	ran   []string
	lacks bool
}

// A said is what a policy says about an object.
type said struct {
	Policy     string         `json:"policy"`
	Pack       string         `json:"pack,omitempty"`
	Validation string         `json:"validation,omitempty"`
	Severity   usher.Severity `json:"severity,omitempty"`
	Field      string         `json:"field,omitempty"`
	Message    string         `json:"message"`
	// Failed says that the policy has no result, and why is the message.
	Failed bool `json:"failed,omitempty"`
	// OfPods says that the pods would be refused which the object has made, and not the object.
	OfPods bool `json:"ofPods,omitempty"`
}

// A triedPolicy is how many objects of a namespace a policy would refuse or change.
type triedPolicy struct {
	Policy string `json:"policy"`
	Pack   string `json:"pack,omitempty"`
	// Severity is the worst of what the policy says.
	Severity    usher.Severity `json:"severity,omitempty"`
	Namespace   string         `json:"namespace,omitempty"`
	Refused     int            `json:"refused"`
	RefusedPods int            `json:"refusedPods"`
	Changed     int            `json:"changed"`
	ChangedPods int            `json:"changedPods"`
}

// newLibraryReport returns an empty report about policies, which compile to rules.
func newLibraryReport(chosen []library.Policy, settings []library.Settings, rules []rule.Rule) *libraryReport {
	r := &libraryReport{rules: rules, chosen: chosen, settings: settings, Objects: []triedObject{}, Policies: []triedPolicy{}, Tried: len(chosen), order: map[string]int{}, readers: map[string][]string{}}
	for i := range chosen {
		r.order[chosen[i].Name] = i
	}
	return r
}
