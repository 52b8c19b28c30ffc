package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/replicas"
)

type statusFlags struct {
	replicas  replica.Flags
	namespace string
	name      string
	timeout   time.Duration
	output    cli.OutputFlag
}

const statusLong = `Status says whether a cluster is protected as its policies say, and if not, what is missing:

* do API servers call Usher? It writes a policy that does not compile as a dry run, which only
  a webhook of Usher refuses. This needs the right to create and patch clustervalidatepolicies.
* which replicas run, and what of them does not work (the line failing: of /readyz?verbose), as CRDs
  that are missing or lack fields; servers outside of the cluster are asked at the URLs of webhooks
* which webhooks are registered, and which of them fail open: API servers admit what these
  would decide while Usher does not answer; namespaces that no policy is for, and from which
  API servers therefore send nothing
* which policies are not enforced, fail on requests, are not proven, or are suspended, as Usher
  has written into their status, and which users policies exclude
* the last decisions, if replicas serve their API (--api-address): the policies that refused most of
  them, and the slowest ones
* which policies have warnings, those first that refuse requests without which a cluster
  cannot recover, and which exemptions are not in force, are from all policies of a kind,
  or end within a day

What to look at first is listed with the command that says more, of three policies each. What you
have no right to ask is listed as not known, with the right that is missing. It asks about admission; of
authorization it knows the policies, and not whether API servers fail open. Of policies of namespaces, -n selects those of one; a user
who may read no others sees these.

The exit status is 0 if everything that is the cluster's own is enforced, 1 if something of it
is not, and 2 if that cannot be told. What is wrong with policies of namespaces, which who
works there may cause alone, is listed and counted apart, and does not change it. A user who may
read the policies of one namespace only asks about these with -n: 0 if all of them are enforced as
Usher has last written into their status, and 1 if not. Without -n it is 2.`

// Status returns usher status.
func Status(s cli.Streams) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a cluster is protected now, and what is not enforced",
		Long:  statusLong,
		Example: `  usher status
  usher status --usher-namespace policy
  usher status -o json | jq -r '.problems[].what'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.ask(cmd, s)
			if err != nil {
				return err
			}
			if err := f.output.Report(s.Out, r, func() error { return r.print(s.Out) }); err != nil {
				return err
			}
			switch {
			case !r.Protected:
				return cli.ErrNegative
			case r.tenant != "" && f.namespace == "":
				return fmt.Errorf("cannot tell whether the cluster is protected: you may read the policies of one namespace; ask about these alone with -n %s", r.tenant)
			case r.tenant != "" && len(r.NamespaceProblems) > 0:
				return cli.ErrNegative
			case r.tenant != "":
				return nil
			case r.Calls != callsSeen && len(r.Replicas) == 0, len(r.unverified) > 0:
				return errors.New("cannot tell whether the cluster is protected: see what is not known")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	f.replicas.Register(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the policies to ask about, besides those of the cluster (default: all, or for users of one namespace that of the kubeconfig)")
	flags.StringVar(&f.name, "webhook-configuration-name", "usher", "name of the webhook configurations")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "timeout of the whole command")
	f.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

// Whether API servers call Usher.
const (
	callsSeen    = "called"
	callsMissing = "notCalled"
	callsUnknown = "unknown"
)

type statusReport struct {
	// Protected says that nothing of the cluster was found that is not enforced.
	Protected bool            `json:"protected"`
	Calls     string          `json:"calls"`
	Replicas  []replicaStatus `json:"replicas"`
	Webhooks  []webhookStatus `json:"webhooks"`
	// Unsent says from where API servers send no requests, since no policy is for them; nil for nowhere. Writes of
	// policies are always sent.
	Unsent *unsentFrom `json:"unsent,omitempty"`
	// Refused are the resources, other than policies, whose writes API servers refuse while Usher does not answer.
	Refused  []string     `json:"refusedWithoutAnswer,omitempty"`
	Policies policyCounts `json:"policies"`
	// Excluded are the users whom policies exclude (excludeSubjects), those of policies of the cluster first.
	Excluded []excludedFrom `json:"excluded,omitempty"`
	// Decisions are the last ones that replicas know, and LastDecision is the newest; nil if that cannot be told.
	Decisions    *decisionCounts  `json:"decisions,omitempty"`
	LastDecision *recent.Decision `json:"lastDecision,omitempty"`
	// LookAt are policies that are enforced, and are to be looked at first.
	LookAt []lookAt `json:"lookAt"`
	// Problems are why the cluster is not protected, NamespaceProblems what is wrong with policies of namespaces, and
	// Unknown is what cannot be told.
	Problems          []statusProblem `json:"problems"`
	NamespaceProblems []statusProblem `json:"namespaceProblems"`
	Unknown           []string        `json:"unknown"`
	reach
	// failOpen are the policies that FailOpen counts, those of the cluster first.
	failOpen []usher.PolicyRef
	// unverified are policies of the cluster of which it is not known whether they are enforced.
	unverified []statusProblem
	// refusesMost names a policy that refuses most requests; "" if none does.
	refusesMost string
	// lockouts are of the policies that may keep the cluster from recovering, and warnings of the others with warnings.
	lockouts, warnings []lookAt
}

// unanswered says that API servers get no answer: what status says of policies is old.
func (r *statusReport) unanswered() bool {
	return r.Calls == callsMissing || r.noReplica && r.Calls != callsSeen
}

// A reach is what could be found out of the cluster.
type reach struct {
	// stale counts the Leases of servers that have ended without deleting them.
	stale int
	// noReplica says that it is known that none is ready, absent that nothing is registered either, and refuses that API
	// servers refuse writes now, since they get no answer.
	noReplica, absent, refuses bool
	// unseen says that it is not known which replicas run, and unread which webhooks are registered.
	unseen, unread bool
	// unregistered says that a webhook configuration is missing.
	unregistered bool
	// withdrawn is when a policy was written last of which status says that no server enforces it or nobody asks one, and
	// uninstalled says that the reason is 'usher uninstall'.
	withdrawn   time.Time
	uninstalled bool
	// judged says that a server has written the status of a policy.
	judged bool
	// listed says that all kinds of policies could be listed, and tenant is the namespace of a user who may list those
	// of namespaces alone, and see no replica; else "".
	listed bool
	tenant string
	// broken are the parts of replicas that do not work.
	broken []brokenParts
	// authorizing counts authorization policies that would be in force if Usher answered.
	authorizing int
}

// admits says that API servers admit some requests without an answer.
func (r *statusReport) admits() bool {
	return slices.ContainsFunc(r.Webhooks, func(w webhookStatus) bool { return w.FailsOpen })
}

type replicaStatus struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Failing are the parts that do not work.
	Failing string `json:"failing,omitempty"`
	// Silent is why a server outside of the cluster is not ready.
	Silent string `json:"silent,omitempty"`
	// lease is that of a server outside of the cluster; else nil.
	lease *replicas.Peer
}

type webhookStatus struct {
	Name string `json:"name"`
	// FailsOpen says that API servers admit requests about which it does not answer.
	FailsOpen bool `json:"failsOpen"`
}

// unsentFrom are namespaces from which nothing is sent.
type unsentFrom struct {
	Namespaces []string `json:"namespaces"`
	// AllBut says that it is all others.
	AllBut bool `json:"allBut,omitempty"`
}

func (u *unsentFrom) String() string {
	where, whom := some(u.Namespaces), "it"
	if len(u.Namespaces) > 1 {
		whom = "them"
	}
	if u.AllBut {
		where, whom = "all namespaces but "+where, "them"
	}
	return "requests in " + where + " are not sent, except for policies: no policy is for " + whom
}

// policyCounts counts policies. One that is in force may be unproven or fail on requests, too.
type policyCounts struct {
	All       int `json:"all"`
	Enforced  int `json:"enforced"`
	Failing   int `json:"failing"`
	Unproven  int `json:"unproven"`
	Suspended int `json:"suspended"`
	// Unverified counts those of the cluster of which it is not known whether they are enforced.
	Unverified int `json:"unverified"`
	// Excluding counts those in force with excludeSubjects.
	Excluding int `json:"excluding"`
	// FailOpen counts those with failurePolicy Ignore: where a rule fails, the request passes.
	FailOpen int `json:"failOpen"`
	// Warned counts those with warnings, and LockOut those of them that refuse requests without which a cluster cannot
	// recover.
	Warned  int `json:"warned"`
	LockOut int `json:"lockOut"`
}

type statusProblem struct {
	Policy *usher.PolicyRef `json:"policy,omitempty"`
	What   string           `json:"what"`
}

func (r *statusReport) wrongf(format string, args ...any) {
	r.Problems = append(r.Problems, statusProblem{What: printable.Line(fmt.Sprintf(format, args...))})
}

func (r *statusReport) unknownf(format string, args ...any) {
	r.Unknown = append(r.Unknown, printable.Line(fmt.Sprintf(format, args...)))
}

// ask asks for everything that there is to know. What one question cannot tell others may.
func (f *statusFlags) ask(cmd *cobra.Command, s cli.Streams) (*statusReport, error) {
	config, err := cluster.Find(f.replicas.Kubeconfig, f.replicas.Context)
	if err != nil {
		return nil, err
	}
	set, err := clients.Connect(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	cmd.SetContext(ctx)
	if _, err := set.Kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
		return nil, fmt.Errorf("the cluster does not answer: %w", err)
	}
	r := &statusReport{Replicas: []replicaStatus{}, Webhooks: []webhookStatus{}, LookAt: []lookAt{}, Problems: []statusProblem{}, NamespaceProblems: []statusProblem{}, Unknown: []string{}}
	// The question whether Usher is called is a decision, too.
	last := f.decided(ctx, r)
	f.running(ctx, set.Kube, r)
	f.registered(ctx, set, r)
	all, err := f.readable(cmd, s, set, r)
	if err != nil {
		return nil, err
	}
	r.wrongParts()
	for i := range all {
		if in := all[i].Object.GetNamespace(); in != "" && f.namespace != "" && in != f.namespace {
			continue
		}
		if err := r.policy(&all[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.Excluded, func(a, b excludedFrom) int { return clusterFirst(a.Policy, b.Policy) })
	slices.SortStableFunc(r.failOpen, clusterFirst)
	r.Policies.Excluding, r.Policies.FailOpen = len(r.Excluded), len(r.failOpen)
	r.Unknown = append(r.Unknown, listed("", r.unverified)...)
	if r.authorizing > 0 && r.tenant == "" {
		r.unknownf("%s", failsOpen)
	}
	f.count(r, last, all)
	r.LookAt = append(append(r.LookAt, exempting(all, time.Now())...), r.worst()...)
	if r.unanswered() {
		// Status is what Usher wrote when it last ran.
		r.Policies.Enforced = 0
		if policies := r.undecided(); policies != "" {
			// What API servers do without an answer cannot be told from the cluster: it is in files of theirs.
			r.wrongf("%s: no replica answers authorization webhooks. What they deny passes if RBAC allows it and API servers have failurePolicy: NoOpinion. What RBAC does not allow, and with failurePolicy: Deny all that is sent to /authorize/deny, gets an internal error (500) that names the webhook (docs/authorization.md: When something goes wrong)", policies)
		}
	}
	r.Protected = len(r.Problems) == 0
	return r, ctx.Err()
}

// readable returns the policies of a cluster, or for its user who may read no more those of one namespace: the one that
// is asked about, or that of the kubeconfig.
func (f *statusFlags) readable(cmd *cobra.Command, s cli.Streams, set *clients.Set, r *statusReport) ([]api.Policy, error) {
	all, forbidden, err := policies.FromCluster(cmd, s, set.Policies, "")
	if r.listed = len(forbidden) == 0; err != nil || r.listed {
		return all, err
	}
	if r.unseen && r.unread {
		namespace := cmp.Or(f.namespace, cluster.NamespaceOf(f.replicas.Kubeconfig, f.replicas.Context))
		own, left, err := policies.FromCluster(cmd, s, set.Policies, namespace)
		if err == nil && len(left) < len(forbidden) {
			r.tenant = namespace
			r.Unknown = nil
			r.unknownf("the cluster: an administrator may read which replicas run, what is registered, and the policies of the cluster; 'usher watch -n %s' (needs the Role usher-connect, or --server) shows decisions", namespace)
			return own, nil
		}
	}
	r.unknownf("policies: %s", policies.NoRight(forbidden))
	return all, nil
}
