package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/source"
	clustersource "github.com/usher-dev/usher/source/cluster"
	"github.com/usher-dev/usher/source/dir"
)

// sources returns the sources of policies in files and in a cluster; earlier ones take precedence.
func sources(files []string, cluster *clusterRuntime) []source.Source {
	var all []source.Source
	if len(files) > 0 {
		all = append(all, dir.New(files...))
	}
	if cluster != nil {
		all = append(all, cluster.sources()...)
	}
	return all
}

// newAdmission returns the source of the admission policies that the API server has; nil if they
// are not read. Nobody waits for those that are not to be enforced.
func newAdmission(c Config) *clustersource.Source {
	if c.Cluster.AdmissionPolicies == IgnoreAdmissionPolicies {
		return nil
	}
	return clustersource.Admission(c.Cluster.Clients.Policies, clustersource.Options{Lenient: !c.Cluster.enforcesAdmission(), Log: c.Log})
}

func (c *Cluster) enforcesAdmission() bool { return c.AdmissionPolicies == EnforceAdmissionPolicies }

// sources returns the sources of the policies to enforce; earlier ones take precedence.
func (m *clusterRuntime) sources() []source.Source {
	if m.admission != nil && m.enforcesAdmission() {
		return []source.Source{m.source, m.admission}
	}
	return []source.Source{m.source}
}

// staleness returns for how long the policies to enforce have not been confirmed to be those of the
// cluster.
func (m *clusterRuntime) staleness() time.Duration {
	stale := m.source.Staleness()
	if m.admission != nil && m.enforcesAdmission() {
		stale = max(stale, m.admission.Staleness())
	}
	return stale
}

// learn tells l which policies the API server enforces itself, until ctx is done.
func (m *clusterRuntime) learn(ctx context.Context, l *live.Live) error {
	if m.admission == nil || m.enforcesAdmission() {
		return nil
	}
	return m.admission.Run(ctx, func(set source.Set) { l.Known(set.Policies) })
}

// describeAdmission writes how the admission policies of the API server are read.
func (m *clusterRuntime) describeAdmission(b *page.Page, status live.Status) {
	switch {
	case m.admission == nil:
		b.WriteString("admission policies of the API server: not read\n")
		return
	case m.enforcesAdmission():
		b.WriteString("admission policies of the API server: enforced here\n")
	default:
		b.WriteString("admission policies of the API server: enforced by itself\n")
	}
	for _, r := range m.admission.Readings() {
		if r.Err != nil {
			b.Fail(r.Kind.Kind)
		}
		fmt.Fprintf(b, "  %s: ", r.Kind.Kind)
		switch {
		case r.Err != nil && !b.Named:
			b.WriteString("not read\n")
		case r.Err != nil:
			b.Namef("%v\n", r.Err)
		case r.Version == "":
			b.WriteString("not read yet\n")
		case m.enforcesAdmission():
			fmt.Fprintf(b, "in %s\n", r.Version)
		default:
			fmt.Fprintf(b, "%d, in %s\n", status.Known[r.Kind.Kind], r.Version)
		}
	}
}
