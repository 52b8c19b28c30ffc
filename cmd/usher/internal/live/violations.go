package live

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// mostItems and longestReading end an answer: the page asks for the next one. The first answer ends with the first
	// results, which the page shows while it reads the others.
	mostItems      = 2000
	longestReading = 4 * time.Second
)

// A Selection are results of the audit.
type Selection struct {
	Namespace string `json:"namespace"`
	// Policy selects those of one policy.
	Policy *Ref `json:"policy,omitempty"`
	// Continue is where the answer before ended.
	Continue string `json:"continue,omitempty"`
}

// Violations are results of the audit that are not passes.
type Violations struct {
	Items []result.Result `json:"items"`
	// Summary counts all results of the namespaces that end in this answer, and not only those of a policy.
	Summary result.Summary `json:"summary"`
	// Continue is for the next answer; empty in the last one.
	Continue string `json:"continue"`
	// Restart says that the results have changed since the answer before: begin again.
	Restart bool                `json:"restart"`
	Kinds   []result.KindStatus `json:"kinds"`
	Replica string              `json:"replica"`
	Missing []Gap               `json:"missing"`
}

func (l *Live) violations(ctx context.Context, in *Selection) (*Violations, error) {
	if err := checkNamespace(in.Namespace); err != nil {
		return nil, err
	}
	v := &Violations{Items: []result.Result{}, Kinds: []result.KindStatus{}, Missing: []Gap{}}
	all, gap := l.reached(ctx)
	if gap != nil {
		v.Missing = append(v.Missing, *gap)
		return v, nil
	}
	results := &served.Results{Namespace: in.Namespace}
	if in.Policy != nil {
		results.Policy = slashed(*in.Policy)
	}
	err := results.Ask(l.auditsFirst(all), func(r *replica.Replica) error {
		err := v.read(ctx, results, r, in)
		if err == nil {
			v.Replica = r.Name
			l.mu.Lock()
			l.audits = r.Name
			l.mu.Unlock()
		}
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case apierrors.IsResourceExpired(err):
		v = &Violations{Items: []result.Result{}, Kinds: []result.KindStatus{}, Missing: []Gap{}, Restart: true}
	default:
		v = &Violations{Items: []result.Result{}, Kinds: []result.KindStatus{}, Missing: []Gap{unaudited(err, in.Namespace)}}
	}
	return v, nil
}

// unaudited says what to do without results.
func unaudited(err error, namespace string) Gap {
	text, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	if hint != "" {
		text += "; " + hint
	}
	run := "usher audit --from-cluster"
	if namespace != "" {
		run += " -n " + namespace
	}
	if namespace == "" && apierrors.IsForbidden(err) {
		text += ", or choose a namespace"
	}
	return Gap{"violations", printable.Line(text), run}
}

// auditsFirst returns the replicas, first the one that had results the last time.
func (l *Live) auditsFirst(all []*replica.Replica) []*replica.Replica {
	l.mu.Lock()
	last := l.audits
	l.mu.Unlock()
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *replica.Replica) int {
		switch {
		case a.Name == last && b.Name != last:
			return -1
		case b.Name == last && a.Name != last:
			return 1
		}
		return 0
	})
	return all
}

// read reads some pages.
func (v *Violations) read(ctx context.Context, results *served.Results, r *replica.Replica, in *Selection) error {
	v.Items, v.Continue = v.Items[:0], in.Continue
	for until := time.Now().Add(longestReading); ; {
		page, err := results.Page(ctx, r, v.Continue)
		if err != nil {
			return err
		}
		v.add(&page, in.Policy)
		if v.Continue = page.Metadata.Continue; v.Continue == "" || len(v.Items) >= mostItems || in.Continue == "" && len(v.Items) > 0 || time.Now().After(until) {
			return nil
		}
	}
}

func (v *Violations) add(page *auditapi.List, of *Ref) {
	v.Summary.Merge(page.Summary)
	v.Kinds = append(v.Kinds, page.Kinds...)
	for i := range page.Items {
		one := &page.Items[i]
		if of != nil && refOf(one.Policy) != *of {
			continue
		}
		one.Object.UID = ""
		v.Items = append(v.Items, *one)
	}
}
