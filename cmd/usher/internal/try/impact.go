package try

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/policytest"
)

type impactFlags struct {
	from   []string
	facts  facts.Flags
	limits policies.Limits
	by     []string
	failOn []string
	output cli.OutputFlag
	color  cli.ColorFlag
}

// Impact returns usher impact.
func Impact(s cli.Streams) *cobra.Command {
	var f impactFlags
	cmd := &cobra.Command{
		Use:        "impact OLD NEW --requests PATH",
		SuggestFor: []string{"diff", "compare", "what-if"},
		Short:      "Show what a change of policies would do to requests",
		Long: `Impact compares two sets of policies, in files or folders, on requests: which of them
would be newly denied, or allowed, or warned of, whose objects would come out otherwise, and
for which a rule would fail that did not.

The requests are those of --requests: audit logs of API servers, which may be compressed, and
objects and AdmissionReviews in files and folders. Objects are judged as if they were created.

What is not known is said, never guessed. Audit logs of the level RequestResponse have most of
what policies read. They do not have objects as they were before a request, unless the log has
an earlier request for them, and of what was admitted they have the object that came out: what
mutating policies would change about it is unknown. Policies that read other objects need these
with --facts, and policies that read who sends the request do not judge objects in files.

The exit status is 0 if there is no difference of --fail-on, 1 if there is one or if no
policy that differs is for any of the requests, and 2 if policies or requests cannot be used.`,
		Example: `  usher impact old/ new/ --requests /var/log/kubernetes/audit.log
  usher impact old/ new/ --requests manifests/ --requests reviews/
  git worktree add ../main main && usher impact ../main/policies policies --requests manifests/ -o markdown
  zcat audit-*.log.gz | usher impact old/ new/ --requests - --by policy,namespace,user
  usher impact old/ new/ --requests audit.log --fail-on denied,failing,unknown`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.from, "requests", nil, "file or folder with requests: audit logs, objects, AdmissionReviews, - for the standard input (repeatable)")
	f.facts.Register(flags)
	f.limits.RegisterWithTimeout(cmd)
	flags.StringSliceVar(&f.by, "by", []string{"namespace", "resource"}, "what to count differences by, besides policies: namespace, resource, user, owner")
	cli.Offer(cmd, "by", dimensions...)
	flags.StringSliceVar(&f.failOn, "fail-on", []string{"failing", "denied"}, "differences that make the exit status 1: "+strings.Join(failures(), ", "))
	cli.Offer(cmd, "fail-on", failures()...)
	f.output.Register(cmd, "text", "json", "yaml", "markdown")
	f.color.Register(cmd)
	return cmd
}

// dimensions are the values of --by.
var dimensions = []string{"namespace", "resource", "user", "owner"}

// failures are the values of --fail-on.
func failures() []string {
	var all []string
	for _, kind := range diff.Kinds() {
		all = append(all, string(kind))
	}
	return append(all, "none")
}

func (f *impactFlags) run(cmd *cobra.Command, s cli.Streams, old, new string) error {
	if err := f.validate(old, new); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	was, err := policies.Usable(cmd, s, []string{old}, &f.limits)
	if err != nil {
		return fmt.Errorf("%s: %w", old, err)
	}
	is, err := was.After(cmd, s, []string{new})
	if err != nil {
		return fmt.Errorf("%s: %w", new, err)
	}
	is.NoteSuspended(cmd, s)
	c, err := f.comparing(was, is)
	if err != nil {
		return err
	}
	stop := cli.ShowProgress(s.Err, c.progress)
	err = c.run(cmd, s, f.from)
	stop()
	if err != nil {
		return err
	}
	report := c.report()
	if err := f.print(s, report); err != nil {
		return err
	}
	if f.fails(report) {
		return cli.ErrNegative
	}
	return nil
}

// fails reports whether a report is one to fail on: it has a difference of --fail-on, or policies differ and
// none of them is for any of the requests.
func (f *impactFlags) fails(r *impactReport) bool {
	return !slices.Contains(f.failOn, "none") && len(r.Policies) > 0 &&
		(r.Compared == 0 || slices.ContainsFunc(f.failOn, func(kind string) bool { return r.Requests[diff.Kind(kind)] > 0 }))
}

func (f *impactFlags) validate(old, new string) error {
	for _, flag := range []struct {
		name           string
		values, offers []string
	}{{"by", f.by, dimensions}, {"fail-on", f.failOn, failures()}} {
		for _, value := range flag.values {
			if !slices.Contains(flag.offers, value) {
				return fmt.Errorf("--%s %s: use some of %s, with commas", flag.name, value, strings.Join(flag.offers, ", "))
			}
		}
	}
	if slices.Contains(f.failOn, "none") && len(f.failOn) > 1 {
		return errors.New("--fail-on: none excludes the others")
	}
	if len(f.from) == 0 {
		return errors.New("no requests: name audit logs, objects or AdmissionReviews with --requests")
	}
	return cli.ReadsStdinOnce([]string{old}, []string{new}, f.from)
}

// A comparing has requests compared by all processors.
type comparing struct {
	timeout time.Duration
	workers []worker
	tally   *impact.Tally
	log     *auditlog.Log
	seen    atomic.Int64
	differ  []usher.PolicyRef
}

// A worker compares requests, one after the other.
type worker struct {
	*impact.Comparison

	store *facts.Store
}

// A numbered is a request and its number.
type numbered struct {
	number  int
	subject *impact.Subject
}

func (f *impactFlags) comparing(was, is policies.Set) (*comparing, error) {
	c := &comparing{timeout: is.Timeout(), log: auditlog.New(), tally: impact.NewTally(impact.By{
		Namespace: slices.Contains(f.by, "namespace"), Resource: slices.Contains(f.by, "resource"), User: slices.Contains(f.by, "user"), Owner: slices.Contains(f.by, "owner"),
	})}
	stores, resolvers, err := f.facts.LoadFor(runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	for i, resolver := range resolvers {
		both := impact.New(impact.Side{Decider: was.Decider(resolver), Rules: was.Rules}, impact.Side{Decider: is.Decider(resolver), Rules: is.Rules})
		c.workers, c.differ = append(c.workers, worker{both, stores[i]}), both.Policies()
	}
	return c, nil
}

func (c *comparing) progress() string {
	return cli.Count(int(c.seen.Load()), "request", "requests") + " compared"
}

// run reads the requests, and has the workers compare them.
func (c *comparing) run(cmd *cobra.Command, s cli.Streams, from []string) error {
	group, ctx := errgroup.WithContext(cmd.Context())
	requests := make(chan numbered, 2*len(c.workers))
	group.Go(func() error {
		defer close(requests)
		number := 0
		return c.read(ctx, cmd, s, from, func(subject *impact.Subject) error {
			number++
			select {
			case requests <- numbered{number, subject}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for i := range c.workers {
		group.Go(func() error {
			for r := range requests {
				if err := c.compare(ctx, &c.workers[i], r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *comparing) compare(ctx context.Context, w *worker, r numbered) error {
	type answer struct {
		differences []diff.Difference
		concerned   bool
	}
	w.store.Assume([]string{r.subject.Request.Namespace})
	a, err := policies.Within(ctx, c.timeout, "compare "+r.subject.From, func(ctx context.Context) (answer, error) {
		differences, concerned, err := w.Compare(ctx, r.subject)
		return answer{differences, concerned}, err
	})
	if err != nil {
		return err
	}
	if missing := unknownFacts(r.subject, w.store.TakeMissing()); len(missing) > 0 {
		a.differences = w.Unsure(r.subject, a.differences, "--facts does not have "+strings.Join(missing, ", "))
	}
	c.tally.Add(r.number, r.subject, a.concerned, a.differences)
	c.seen.Add(1)
	return nil
}

// unknownFacts returns those of the objects that are missing without which a result is not known. Namespaces
// of objects in files are taken to have no labels but that with their name, as for 'usher audit'.
func unknownFacts(s *impact.Subject, missing []string) []string {
	if s.Unknown.User == "" {
		return missing
	}
	return slices.DeleteFunc(missing, func(name string) bool { return strings.HasPrefix(name, "v1 Namespace ") })
}

// read calls use for all requests, in order. Files of folders that have none are skipped with a note.
func (c *comparing) read(ctx context.Context, cmd *cobra.Command, s cli.Streams, from []string, use func(*impact.Subject) error) error {
	var skipped []string
	for _, path := range from {
		files := []string{path}
		if path != "-" {
			found, err := manifest.Files(path)
			if err != nil {
				return fmt.Errorf("--requests: %w", err)
			}
			files = found
		}
		for _, file := range files {
			err := c.readFile(ctx, s, file, use)
			if file != path && errors.Is(err, objects.ErrNoObject) {
				skipped = append(skipped, file)
				continue
			}
			if err != nil {
				return fmt.Errorf("--requests: %w", err)
			}
		}
	}
	if len(skipped) > 0 {
		cli.Notef(cmd, s, "note", "skipped what is neither an audit log nor a Kubernetes object in %s: %s", cli.Count(len(skipped), "file", "files"), cli.Some(skipped))
	}
	return nil
}

// readFile calls use for the requests of a file, which is an audit log if it begins like one.
func (c *comparing) readFile(ctx context.Context, s cli.Streams, file string, use func(*impact.Subject) error) error {
	in := s.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	if auditlog.Recognises(buffered) {
		return c.log.Read(ctx, buffered, file, func(e auditlog.Entry) error {
			if e.Write == nil {
				return nil
			}
			return use(e.Write)
		})
	}
	inputs, err := objects.From(file, buffered)
	for i := range inputs {
		subject, err := subjectOf(&inputs[i])
		if err != nil {
			return err
		}
		if err := use(subject); err != nil {
			return err
		}
	}
	return err
}

// subjectOf returns the creation of an object, or the request of a review.
func subjectOf(in *objects.Input) (*impact.Subject, error) {
	if in.Review != nil {
		return &impact.Subject{Request: admission.RequestOf(in.Review), From: in.File}, nil
	}
	metadata, _ := in.Object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	if in.Object["kind"] == "Namespace" {
		namespace, _ = metadata["name"].(string)
	}
	r, err := (&policytest.Request{Operation: usher.Create, Namespace: namespace, Object: in.Object}).For(usher.Mutate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.File, err)
	}
	return &impact.Subject{Request: r, From: in.File, Unknown: impact.Unknowns{User: "objects do not tell who writes them"}}, nil
}
