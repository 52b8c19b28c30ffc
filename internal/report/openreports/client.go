package openreports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	requestTimeout = 15 * time.Second
	fieldManager   = "usher-reports"
	// Reports are read so many at a time, which are at most 8 MB, and their metadata.
	reportsPerPage  = 20
	metadataPerPage = 500

	asJSON     = "application/json"
	asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// ErrNotInstalled says that the cluster does not serve the API.
var ErrNotInstalled = errors.New(
	groupVersion + " is not installed in this cluster: set the value reports.installCRDs of the chart, or install it from openreports.io")

var (
	errChanged = errors.New("someone else changed a report of Usher's")
	errTaken   = errors.New("a report has the name of one of Usher's")
	errCrowded = errors.New("too many reports of others have names of Usher's")

	errDeleting = errors.New("the namespace is being deleted")
)

var ownName = regexp.MustCompile(`^usher-([1-9][0-9]{0,5})$`)

// number returns the number in the name of a report of Usher.
func number(m *metav1.ObjectMeta) (int, bool) {
	match := ownName.FindStringSubmatch(m.Name)
	if match == nil || m.Labels[ManagedByLabel] != Source {
		return 0, false
	}
	n, err := strconv.Atoi(match[1])
	return n, err == nil
}

func nameOf(n int) string { return NamePrefix + strconv.Itoa(n) }

// A client reads and writes reports.
type client struct{ rest rest.Interface }

// resources are the kinds of reports.
func resources() []string { return []string{"reports", "clusterreports"} }

// in returns a request about the reports of a namespace, or about ClusterReports if it is empty.
func (c client) in(verb, namespace string, name ...string) *rest.Request {
	path := []string{"/apis", Group, Version}
	if namespace == "" {
		path = append(path, "clusterreports")
	} else {
		path = append(path, "namespaces", namespace, "reports")
	}
	return c.request(verb, append(path, name...)...)
}

func (c client) request(verb string, path ...string) *rest.Request {
	return c.rest.Verb(verb).AbsPath(path...).SetHeader("Accept", asJSON).Timeout(requestTimeout)
}

// do sends a request and decodes the response; into may be nil.
func do(ctx context.Context, r *rest.Request, into any) error {
	response := r.Do(ctx)
	// The error of Raw lacks what the API server says.
	if err := response.Error(); err != nil || into == nil {
		return err
	}
	body, err := response.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (c client) get(ctx context.Context, namespace string, n int) (*Report, error) {
	var r Report
	if err := do(ctx, c.in("GET", namespace, nameOf(n)), &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// put creates a report, or replaces the version that r names.
func (c client) put(ctx context.Context, r *Report) (metav1.ObjectMeta, error) {
	var stored metav1.PartialObjectMetadata
	body, err := json.Marshal(r)
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	request := c.in("POST", r.Namespace)
	if r.ResourceVersion != "" {
		request = c.in("PUT", r.Namespace, r.Name)
	}
	request.Param("fieldManager", fieldManager).SetHeader("Content-Type", asJSON).Body(body)
	err = do(ctx, request, &stored)
	return stored.ObjectMeta, err
}

// remove deletes a report, if it is still the one that m names, in its version if m names one.
func (c client) remove(ctx context.Context, m *metav1.ObjectMeta) error {
	return remove(ctx, c.in("DELETE", m.Namespace, m.Name), m)
}

// remove sends a request to delete an object. One that is gone is no error.
func remove(ctx context.Context, r *rest.Request, m *metav1.ObjectMeta) error {
	preconditions := &metav1.Preconditions{UID: &m.UID}
	if m.ResourceVersion != "" {
		preconditions.ResourceVersion = &m.ResourceVersion
	}
	body, err := json.Marshal(metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: preconditions})
	if err != nil {
		return err
	}
	err = do(ctx, r.SetHeader("Content-Type", asJSON).Body(body), nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// A page of a list.
type page[T any] struct {
	metav1.ListMeta `json:"metadata"`

	Items []T `json:"items"`
}

// list reads all reports of Usher at a path: those of a resource, or of a namespace.
func list[T any](ctx context.Context, c client, accept string, perPage int, each func(*T), path ...string) error {
	next := ""
	for {
		request := c.request("GET", append([]string{"/apis", Group, Version}, path...)...).SetHeader("Accept", accept).
			Param("labelSelector", ManagedByLabel+"="+Source).Param("limit", strconv.Itoa(perPage))
		if next != "" {
			request.Param("continue", next)
		}
		var p page[T]
		err := do(ctx, request, &p)
		if apierrors.IsNotFound(err) {
			return ErrNotInstalled
		}
		if err != nil {
			return fmt.Errorf("list reports: %w", err)
		}
		for i := range p.Items {
			each(&p.Items[i])
		}
		if next = p.Continue; next == "" {
			return nil
		}
	}
}

// reports reads all reports of Usher.
func (c client) reports(ctx context.Context, each func(*Report)) error {
	for _, resource := range resources() {
		if err := list(ctx, c, asJSON, reportsPerPage, each, resource); err != nil {
			return err
		}
	}
	return nil
}

// reportsIn reads the reports of Usher about a namespace.
func (c client) reportsIn(ctx context.Context, namespace string, each func(*Report)) error {
	path := []string{"clusterreports"}
	if namespace != "" {
		path = []string{"namespaces", namespace, "reports"}
	}
	return list(ctx, c, asJSON, reportsPerPage, each, path...)
}

// metadata reads the metadata of all reports of Usher.
func (c client) metadata(ctx context.Context, each func(*metav1.PartialObjectMetadata)) error {
	for _, resource := range resources() {
		if err := list(ctx, c, asMetadata, metadataPerPage, each, resource); err != nil {
			return err
		}
	}
	return nil
}

// A failure is what an error of a write means.
type failure int

const (
	// outage: other writes would fail, too.
	outage failure = iota
	// surprise: the report is not what it was.
	surprise
	// taken: there is a report of this name, and it is not Usher's.
	taken
	// refusal: the API server rejects this report.
	refusal
)

// classify returns what an error of a write means, and the reason for people.
func classify(err error) (failure, error) {
	var answer apierrors.APIStatus
	switch {
	case errors.Is(err, errCrowded):
		return refusal, err
	case errors.Is(err, errTaken):
		return taken, err
	case errors.Is(err, errChanged):
		return surprise, err
	case !errors.As(err, &answer), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err), apierrors.IsUnauthorized(err):
		return outage, err
	case apierrors.IsConflict(err):
		return surprise, err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err) && aboutNamespace(answer):
		return refusal, errDeleting
	case apierrors.IsNotFound(err):
		return surprise, err
	}
	return refusal, err
}

func aboutNamespace(answer apierrors.APIStatus) bool {
	details := answer.Status().Details
	return details != nil && details.Kind == "namespaces"
}
