package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
)

const (
	// most limits a page that a server sends, in bytes.
	most = 16 << 20
	// attempts is how often all pages are read, if results change meanwhile.
	attempts = 3
)

// auditServer returns the results of the replica that audits the cluster.
func (f *auditFlags) auditServer(cmd *cobra.Command) (*format.Report, error) {
	set, err := f.replicas.Connect(cmd.Context())
	if err != nil && f.replicas.Kubeconfig == "" && len(f.replicas.Servers) == 0 {
		return nil, fmt.Errorf("%w; 'usher audit -p POLICIES FILES' audits files, without a cluster", err)
	}
	if err != nil {
		return nil, err
	}
	all, err := set.Find(cmd.Context())
	if err != nil {
		return nil, withoutServer(err)
	}
	var without error
	for _, r := range all {
		pages, err := f.pages(cmd.Context(), r)
		switch {
		case err == nil:
			return f.reportOf(pages), nil
		case apierrors.IsServiceUnavailable(err), apierrors.IsNotFound(err):
			without = fmt.Errorf("%s: %w", r.Name, err)
		default:
			return nil, f.explained(r, err)
		}
	}
	return nil, withoutServer(without)
}

// withoutServer adds what works if no server audits.
func withoutServer(err error) error {
	return fmt.Errorf("%w; 'usher audit --from-cluster' audits without a server", err)
}

// explained adds what to do about an error.
func (f *auditFlags) explained(r *replica.Replica, err error) error {
	err = fmt.Errorf("%s: %w", r.Name, err)
	if hint := replica.Hint(err, "list", delegated.AuditResults, f.namespace); hint != "" {
		err = fmt.Errorf("%w\nhint: %s", err, hint)
	}
	return err
}

// pages reads all pages, and from the beginning if results change meanwhile.
func (f *auditFlags) pages(ctx context.Context, r *replica.Replica) ([]auditapi.List, error) {
	var err error
	for range attempts {
		var pages []auditapi.List
		if pages, err = f.readPages(ctx, r); err == nil || !apierrors.IsResourceExpired(err) {
			return pages, err
		}
	}
	return nil, err
}

func (f *auditFlags) readPages(ctx context.Context, r *replica.Replica) ([]auditapi.List, error) {
	var pages []auditapi.List
	query := url.Values{"limit": {strconv.Itoa(existing.PageSize)}}
	if f.policy != "" {
		query.Set("policy", f.policy)
	}
	for {
		page, err := readPage(ctx, r, replica.Path(f.namespace, delegated.AuditResults), query)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
		next := page.Metadata.Continue
		switch {
		case next == "":
			return pages, nil
		case next == query.Get("continue"):
			return nil, errors.New("the server sends the same page again")
		}
		query.Set("continue", next)
	}
}

func readPage(ctx context.Context, r *replica.Replica, path string, query url.Values) (auditapi.List, error) {
	var page auditapi.List
	response, err := r.Get(ctx, path, query, nil)
	if err != nil {
		return page, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	if err != nil {
		return page, fmt.Errorf("read results: %w", err)
	}
	return page, nil
}

// reportOf returns the report of all pages. Of policies without results the server says nothing.
func (f *auditFlags) reportOf(pages []auditapi.List) *format.Report {
	r := &format.Report{Objects: -1, Results: []format.Result{}, Policies: []format.Policy{}, Partial: true}
	counts := map[usher.PolicyRef]*result.Summary{}
	for i := range pages {
		r.Kinds = append(r.Kinds, pages[i].Kinds...)
		r.Summary.Merge(pages[i].Summary)
		for _, one := range pages[i].Items {
			r.Results = append(r.Results, format.Result{Result: one})
			if counts[one.Policy] == nil {
				counts[one.Policy] = &result.Summary{}
			}
			counts[one.Policy].Add(one.Status, 1)
		}
	}
	if f.namespace == "" {
		r.Objects = 0
		for _, kind := range r.Kinds {
			r.Objects += kind.Objects
		}
	}
	if f.policy != "" {
		// The server counts the results of all policies.
		r.Objects, r.Summary = -1, result.Summary{}
	}
	for ref, summary := range counts {
		if ref.Name != "" {
			r.Policies = append(r.Policies, format.Policy{PolicyRef: ref, Summary: *summary})
		}
		if f.policy != "" {
			r.Summary.Merge(*summary)
		}
	}
	r.Sort()
	return r
}
