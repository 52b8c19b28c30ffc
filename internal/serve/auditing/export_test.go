package auditing

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/serve/kinds"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/observe/metrics"
)

// A FactChanges is factChanges.
type FactChanges struct{ *factChanges }

// NewFactChanges is newFactChanges.
func NewFactChanges(delay time.Duration, tell func(of schema.GroupVersionKind, namespace, name string)) FactChanges {
	return FactChanges{newFactChanges(delay, tell)}
}

// Add is add.
func (c FactChanges) Add(of schema.GroupVersionKind, namespace, name string) {
	c.add(of, namespace, name)
}

// Run is run.
func (c FactChanges) Run(ctx context.Context, from *clusterfact.Resolver) { c.run(ctx, from) }

// Discovered is what was discovered once.
type Discovered kinds.Lists

// Lists implements [Discovery].
func (d *Discovered) Lists() *kinds.Lists { return (*kinds.Lists)(d) }

// Read implements [Discovery].
func (*Discovered) Read() {}

// Changed implements [Discovery].
func (*Discovered) Changed() <-chan struct{} { return nil }

// A Term is the audit by a replica that leads, which reads nothing.
type Term struct{ t *term }

// NewTerm returns the audit by some policies.
func NewTerm(compiled []compile.Compiled) Term {
	log := slog.New(slog.DiscardHandler)
	t := &term{Audit: New(Config{}, Options{Log: log}), unreadable: map[result.Kind]bool{}, auditor: audit.New(audit.Options{Log: log})}
	t.auditor.Enforce(compile.Order(compiled))
	t.publish(t.auditor)
	return Term{t}
}

// Follow follows what discovery returned. It returns the text of /readyz?verbose, what metrics are
// made of, and the results of the cluster.
func (u Term) Follow(ctx context.Context, lists []*metav1.APIResourceList, complete bool) (string, *metrics.AuditState, []result.Result) {
	u.t.options.Discovery = &Discovered{Resources: lists, Complete: complete}
	u.t.follow(ctx)
	ready := page.Page{Named: true}
	u.t.Describe(&ready)
	results, _ := u.t.auditor.Namespace("")
	return ready.String(), u.t.State(), results
}

// Kinds returns the kinds that are read after discovery, and whether only their metadata is, and those
// that cannot be.
func (u Term) Kinds(lists []*metav1.APIResourceList, complete bool) (read map[result.Kind]bool, unreadable map[result.Kind]error) {
	u.t.discover(&kinds.Lists{Resources: lists, Complete: complete})
	return audited(lists, u.t.auditor)
}

// Policies returns the policies that judge objects of a kind.
func (u Term) Policies(k result.Kind) []usher.PolicyRef { return u.t.auditor.Policies(k) }
