// Package live has what the console shows of a cluster: policies, results of the audit, and decisions as they are made.
//
// Everything is read with the credentials of the user who runs the console, by the ways in that other commands have. API
// servers authorize each request: what the user may not read is not there, and a [Gap] says so. Nothing is written.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/fact"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/printable"
)

// Flags say which cluster is shown, and how replicas are reached.
type Flags struct {
	// FromCluster shows the cluster that kubectl would use. The others that are set do, too.
	FromCluster bool
	Replicas    replica.Flags
	Namespace   string
}

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.FromCluster, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it; --kubeconfig, --context and --server do, too")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the policies and requests to show first (default: all that you may read)")
	f.Replicas.Register(flags)
}

// Given reports whether there is a cluster to show.
func (f *Flags) Given() bool {
	return f.FromCluster || f.Replicas.Kubeconfig != "" || f.Replicas.Context != "" || len(f.Replicas.Servers) > 0
}

// Complete checks the flags.
func (f *Flags) Complete() error {
	switch {
	case !f.Given() && (f.Namespace != "" || f.Replicas.TokenFile != "" || f.Replicas.ServiceAccount != "" || f.Replicas.CAFile != ""):
		return errors.New("-n, --token-file, --service-account and --ca-file are for a cluster: name it with --from-cluster, --kubeconfig, --context or --server")
	case f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0:
		return fmt.Errorf("-n %s: not the name of a namespace", printable.Line(f.Namespace))
	}
	return nil
}

// Live shows a cluster. It is safe for concurrent use.
type Live struct {
	flags    Flags
	attempts *try.Attempter
	// clients and facts are nil without a kubeconfig: then the replicas at URLs are all that there is.
	clients *clients.Set
	facts   fact.Resolver
	set     *replica.Set

	mu sync.Mutex
	// replicas are those that were found last.
	replicas []*replica.Replica
	found    time.Time
	// audits is the name of the replica that answered last about the audit.
	audits string
}

// foundFor is how long replicas are not looked for again.
const foundFor = 15 * time.Second

// Routes returns what the page asks about the cluster of the flags. Without one, it says how to show one. It finds out who
// the user is, and asks for nothing else.
func (f *Flags) Routes(ctx context.Context, attempts *try.Attempter) ([]console.Route, error) {
	if !f.Given() {
		off := func(context.Context, string) (*About, error) {
			return &About{Replicas: []Name{}, Missing: []Gap{notOpened}}, nil
		}
		return []console.Route{console.Get("live", "namespace", "Which cluster is shown, and what the user may read", off)}, nil
	}
	l := &Live{flags: *f, attempts: attempts}
	var err error
	if len(f.Replicas.Servers) == 0 || f.FromCluster || f.Replicas.Kubeconfig != "" || f.Replicas.Context != "" {
		config, err := cluster.Find(f.Replicas.Kubeconfig, f.Replicas.Context)
		if err != nil {
			return nil, err
		}
		if l.clients, err = clients.Connect(config); err != nil {
			return nil, err
		}
		l.facts = clusterfact.New(l.clients.Facts, l.clients.Mapper, clusterfact.Options{})
	}
	if l.set, err = f.Replicas.Connect(ctx); err != nil && l.clients == nil {
		return nil, err
	}
	if err != nil {
		// Policies are shown nevertheless.
		l.set = nil
	}
	return l.routes(), nil
}

func (l *Live) routes() []console.Route {
	return []console.Route{
		console.Get("live", "namespace", "Which cluster is shown, and what the user may read", l.about).From(console.Remote),
		console.Post("live/policies", console.Remote, "The policies, candidates and exemptions of a namespace, or of all", l.policies),
		console.Post("live/policy", console.Remote, "One policy: what it selects and reads, and how it does", l.policy),
		console.Post("live/violations", console.Remote, "Results of the audit of a namespace, or of all", l.violations),
		console.Post("live/open", console.Remote, "Policies, an object and the facts that they read, as a state to try", l.open),
		console.Stream("live/decisions", "Decisions as they are made: the events decision, lost, notice, current, gap and failed", l.decisions),
	}
}

var notOpened = Gap{"cluster", "no cluster is open", "usher console --from-cluster"}

// A Gap is something that the user does not see, and what to do about it.
type Gap struct {
	What string `json:"what"`
	Text string `json:"text"`
	// Run is a line for a shell; empty if there is none.
	Run string `json:"run"`
}

// A Command is a line for a shell.
type Command struct {
	Title string `json:"title"`
	Run   string `json:"run"`
}

// A Name is that of something.
type Name struct {
	Name string `json:"name"`
}

// An About says which cluster is shown.
type About struct {
	Enabled bool `json:"enabled"`
	// Namespace is the one to begin with; empty for all.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Replicas  []Name `json:"replicas"`
	Access    Access `json:"access"`
	Missing   []Gap  `json:"missing"`
}

// An Access is what the user may read, in the namespace that was asked about. What is not known is absent.
type Access struct {
	Policies   *bool `json:"policies,omitempty"`
	Violations *bool `json:"violations,omitempty"`
	Decisions  *bool `json:"decisions,omitempty"`
	Candidates *bool `json:"candidates,omitempty"`
}

func (l *Live) about(ctx context.Context, namespace string) (*About, error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	a := &About{Enabled: true, Namespace: l.flags.Namespace, Replicas: []Name{}, Missing: []Gap{}}
	if l.clients != nil {
		a.Cluster = cluster.ContextOf(l.flags.Replicas.Kubeconfig, l.flags.Replicas.Context)
	}
	asked := namespace
	all, gap := l.reached(ctx)
	if gap != nil {
		a.Missing = append(a.Missing, *gap)
	}
	for _, r := range all {
		a.Replicas = append(a.Replicas, Name{r.Name})
	}
	if len(all) > 0 {
		if gap := l.rights(ctx, all, asked, a); gap != nil {
			a.Missing = append(a.Missing, *gap)
		}
	}
	l.mayList(ctx, asked, a)
	if a.Namespace == "" && !yes(a.Access.Policies) && !yes(a.Access.Decisions) && asked == "" && l.clients != nil {
		a.Namespace = cluster.NamespaceOf(l.flags.Replicas.Kubeconfig, l.flags.Replicas.Context)
	}
	return a, nil
}

func yes(b *bool) bool { return b != nil && *b }

// rights asks a replica what the user may read there.
func (l *Live) rights(ctx context.Context, all []*replica.Replica, namespace string, a *About) *Gap {
	path := strings.TrimSuffix(replica.Path(namespace, ""), "/")
	response, err := all[0].Get(ctx, path, nil, nil)
	if err != nil {
		return &Gap{"replicas", printable.Line(err.Error()), replica.Hint(err, "list", delegated.Decisions, namespace)}
	}
	defer func() { _ = response.Body.Close() }()
	var access delegated.Access
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&access); err != nil {
		return &Gap{"replicas", "a replica does not say what you may read: " + printable.Line(err.Error()), ""}
	}
	a.User = access.User
	for _, r := range access.Resources {
		may := r.Served && slices.Contains(r.Verbs, "list")
		switch r.Name {
		case delegated.Decisions:
			may = may && slices.Contains(r.Verbs, "watch")
			a.Access.Decisions = &may
		case delegated.CandidateDecisions:
			a.Access.Candidates = &may
		case delegated.AuditResults:
			a.Access.Violations = &may
		}
	}
	return nil
}

// mayList asks the API server whether the user may list policies.
func (l *Live) mayList(ctx context.Context, namespace string, a *About) {
	if l.clients == nil {
		a.Missing = append(a.Missing, noKubeconfig)
		return
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Group: delegated.Group, Resource: "objectpolicies"},
	}}
	answer, err := l.clients.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		a.Missing = append(a.Missing, Gap{"policies", "the API server does not say what you may read: " + printable.Line(err.Error()), "kubectl auth whoami"})
		return
	}
	a.Access.Policies = &answer.Status.Allowed
}

var noKubeconfig = Gap{"policies", "policies are read from the API server of a cluster, which --server does not name", "usher console --from-cluster"}

// reached returns the replicas, or why there are none.
func (l *Live) reached(ctx context.Context) ([]*replica.Replica, *Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.found) < foundFor {
		return l.replicas, nil
	}
	if l.set == nil {
		set, err := l.flags.Replicas.Connect(ctx)
		if err != nil {
			return nil, &Gap{"replicas", printable.Line(err.Error()), "usher console --from-cluster --service-account NAMESPACE/NAME"}
		}
		l.set = set
	}
	all, err := l.set.Find(ctx)
	if err != nil {
		run := "kubectl get pods -n " + l.flags.Replicas.Namespace + " -l app.kubernetes.io/name=usher"
		if apierrors.IsForbidden(err) {
			run = "usher console --from-cluster --server https://USHER:8445 --ca-file ca.crt"
		}
		return nil, &Gap{"replicas", printable.Line(err.Error()), run}
	}
	l.replicas, l.found = all, time.Now()
	return all, nil
}

// checkNamespace refuses what is not a namespace; empty means all.
func checkNamespace(name string) error {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("namespace: " + printable.Line(printable.Cut(name, 100)) + " is not the name of one")
	}
	return nil
}

// A Ref names a policy.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func refOf(p usher.PolicyRef) Ref { return Ref{p.Kind, p.Namespace, p.Name} }
