package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
)

const (
	// most limits a page that a server sends, in bytes.
	most = 16 << 20
	// attempts is how often all pages are read, if results change meanwhile.
	attempts = 3
)

// Results are those of the audit that are read: of one namespace, or of all if it is empty; of the policies with a name,
// or of all.
type Results struct{ Namespace, Policy string }

// Ask asks one replica after the other, until one audits the cluster. The error is that of the last one, or one that
// stays.
func (x *Results) Ask(all []*replica.Replica, ask func(*replica.Replica) error) error {
	var without error
	for _, r := range all {
		err := ask(r)
		switch {
		case err == nil:
			return nil
		case apierrors.IsServiceUnavailable(err), apierrors.IsNotFound(err):
			without = fmt.Errorf("%s: %w", r.Name, err)
		default:
			return x.explained(r, err)
		}
	}
	return without
}

// explained adds what to do about an error.
func (x *Results) explained(r *replica.Replica, err error) error {
	err = fmt.Errorf("%s: %w", r.Name, err)
	if hint := replica.Hint(err, "list", delegated.AuditResults, x.Namespace); hint != "" {
		err = fmt.Errorf("%w\nhint: %s", err, hint)
	}
	return err
}

// All reads all pages, and from the beginning if results change meanwhile.
func (x *Results) All(ctx context.Context, r *replica.Replica) ([]auditapi.List, error) {
	var err error
	for range attempts {
		var pages []auditapi.List
		if pages, err = x.pages(ctx, r); err == nil || !apierrors.IsResourceExpired(err) {
			return pages, err
		}
	}
	return nil, err
}

func (x *Results) pages(ctx context.Context, r *replica.Replica) ([]auditapi.List, error) {
	var pages []auditapi.List
	for next := ""; ; {
		page, err := x.Page(ctx, r, next)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
		if next = page.Metadata.Continue; next == "" {
			return pages, nil
		}
	}
}

// Page reads the page at a place, the first one if that is empty.
func (x *Results) Page(ctx context.Context, r *replica.Replica, place string) (auditapi.List, error) {
	var page auditapi.List
	query := url.Values{"limit": {strconv.Itoa(existing.PageSize)}}
	if x.Policy != "" {
		query.Set("policy", x.Policy)
	}
	if place != "" {
		query.Set("continue", place)
	}
	response, err := r.Get(ctx, replica.Path(x.Namespace, delegated.AuditResults), query, nil)
	if err != nil {
		return page, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	switch {
	case err != nil:
		return page, fmt.Errorf("read results: %w", err)
	case place != "" && page.Metadata.Continue == place:
		return page, errors.New("the server sends the same page again")
	}
	return page, nil
}
