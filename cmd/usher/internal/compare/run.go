package compare

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/kind"
)

// A comparing has requests compared by all processors.
type comparing struct {
	timeout time.Duration
	workers []worker
	tally   *impact.Tally
	log     *auditlog.Log
	// notAsked is why rules that ask HTTP services are not compared; empty if they are.
	notAsked  string
	namespace string
	kinds     *kind.Set
	// known are the objects of --facts.
	known []map[string]any
	// labels are those of namespaces.
	labels labelled
	// missing are the objects that --facts does not have, and without which something is not known.
	missing map[string]bool
	lacking int        // how many requests these are
	mu      sync.Mutex // guards missing and lacking
	// generated reports that requests to authorize are generated.
	generated bool
	// from is the cluster that has the objects; nil if there is none.
	from     *clients.Set
	unread   []unreadKind
	seen     atomic.Int64
	existing atomic.Pointer[string]
	// written reports that there are objects of which nobody knows who wrote them.
	written atomic.Bool
}

// A worker compares requests, one after the other.
type worker struct {
	*impact.Comparison

	scene *scene
}

// An item is a request with its number, and the facts of its own if it has some.
type item struct {
	*impact.Subject

	number int
	facts  fact.Resolver
}

// A scene has the facts of the request that is compared.
type scene struct {
	usual fact.Resolver
	// store has the objects of usual; nil if a cluster has them.
	store *facts.Store
	own   atomic.Pointer[fact.Resolver]
}

// Resolve implements [fact.Resolver].
func (s *scene) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	if own := s.own.Load(); own != nil {
		return (*own).Resolve(ctx, ref)
	}
	return s.usual.Resolve(ctx, ref)
}

// set sets the scene for a request.
func (s *scene) set(i *item) {
	s.own.Store(nil)
	if i.facts != nil {
		s.own.Store(&i.facts)
	}
	if r := i.Request; r != nil {
		s.store.Assume([]string{r.Namespace})
		s.store.Decide(r)
	}
}

func (f *Flags) comparing(was, is policies.Set, from *clients.Set) (*comparing, error) {
	c := &comparing{timeout: is.Timeout(), missing: map[string]bool{}, log: auditlog.New(), from: from, namespace: f.Namespace, generated: f.Authorization, tally: impact.NewTally(impact.By{
		Namespace: slices.Contains(f.By, "namespace"), Resource: slices.Contains(f.By, "resource"), User: slices.Contains(f.By, "user"), Owner: slices.Contains(f.By, "owner"),
	})}
	if !f.HTTP {
		c.notAsked = "it asks a service over HTTP: let it with --ask-http"
	}
	var err error
	f.Facts.Namespace = f.Namespace
	if c.known, err = f.Facts.Objects(); err != nil {
		return nil, err
	}
	if c.kinds, err = f.Facts.Kinds(); err != nil {
		return nil, err
	}
	scenes, err := f.scenes(from)
	if err != nil {
		return nil, err
	}
	var before, after impact.Side
	before.Authorizer, before.Access = was.Authorizer()
	after.Authorizer, after.Access = is.Authorizer()
	for _, s := range scenes {
		if !f.Authorization {
			before.Decider, before.Rules = was.Decider(s), was.Rules
			after.Decider, after.Rules = is.Decider(s), is.Rules
		}
		c.workers = append(c.workers, worker{impact.New(before, after), s})
	}
	c.labels = labelledBy(c.policies(), slices.Concat(was.Compiled(), is.Compiled()))
	return c, nil
}

// scenes returns one for each processor.
func (f *Flags) scenes(from *clients.Set) ([]*scene, error) {
	all := make([]*scene, runtime.GOMAXPROCS(0))
	if from != nil {
		usual := existing.Facts(from, &f.Facts)
		for i := range all {
			all[i] = &scene{usual: usual}
		}
		return all, nil
	}
	stores, resolvers, err := f.Facts.LoadFor(len(all))
	for i := range stores {
		all[i] = &scene{usual: resolvers[i], store: stores[i]}
	}
	return all, err
}

func (c *comparing) progress() string {
	text := cli.Count(int(c.seen.Load()), "request", "requests") + " compared"
	if at := c.existing.Load(); at != nil {
		text += ", reading " + *at
	}
	return text
}

// policies returns those that differ.
func (c *comparing) policies() []usher.PolicyRef { return c.workers[0].Policies() }

// run reads the requests, and has the workers compare them.
func (c *comparing) run(cmd *cobra.Command, s cli.Streams, from []string) error {
	group, ctx := errgroup.WithContext(cmd.Context())
	items := make(chan item, 2*len(c.workers))
	group.Go(func() error {
		defer close(items)
		number := 0
		use := func(i item) error {
			if i.Request == nil && !c.workers[0].Authorizes() {
				return nil
			}
			number++
			i.number, i.Unknown.HTTP = number, cmp.Or(i.Unknown.HTTP, c.notAsked)
			select {
			case items <- i:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch {
		case c.generated:
			return c.generate(cmd, s, use)
		case len(from) == 0 && c.from != nil:
			return c.readCluster(ctx, use)
		}
		return c.read(ctx, cmd, s, from, use)
	})
	for i := range c.workers {
		group.Go(func() error {
			for one := range items {
				if err := c.compare(ctx, &c.workers[i], &one); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// generate calls use for generated requests to authorize.
func (c *comparing) generate(cmd *cobra.Command, s cli.Streams, use func(item) error) error {
	all, complete := questions(c.workers[0].Access(usher.PolicyRef{}))
	if !complete {
		cli.Notef(cmd, s, "warning", "there are more requests than were compared, which are %d", len(all))
	}
	for _, i := range all {
		if err := use(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparing) compare(ctx context.Context, w *worker, i *item) error {
	type answer struct {
		differences []impact.Difference
		concerned   bool
	}
	w.scene.set(i)
	if i.Unknown.User != "" {
		c.written.Store(true)
	}
	a, err := policies.Within(ctx, c.timeout, "compare "+i.From, func(ctx context.Context) (answer, error) {
		differences, concerned, err := w.Compare(ctx, i.Subject)
		return answer{differences, concerned}, err
	})
	if err != nil {
		return err
	}
	if missing := w.scene.store.TakeMissing(); len(missing) > 0 {
		sure, labelled, err := c.sure(ctx, w, i, a.differences, missing)
		if err != nil {
			return err
		}
		a.differences = w.Unsure(i.Subject, a.differences, func(of usher.PolicyRef) string {
			return "--facts does not have " + strings.Join(missing, ", ") + labelled[of]
		}, sure)
		if slices.ContainsFunc(a.differences, func(d impact.Difference) bool { return d.Kind == diff.Unknown }) {
			c.lack(missing)
		}
	}
	c.tally.Add(i.number, i.Subject, a.concerned, a.differences)
	c.seen.Add(1)
	return nil
}

// mostMissing is how many missing objects a report names.
const mostMissing = 100

// lack notes that objects are missing, and that something is not known of a request because of that.
func (c *comparing) lack(objects []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lacking++
	for _, o := range objects {
		if len(c.missing) < mostMissing {
			c.missing[o] = true
		}
	}
}
