package openreports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/report/openreports"
)

// An outcome is what a cluster does with a write, besides what it should.
type outcome int

const (
	works outcome = iota
	// unavailable: it is not done.
	unavailable
	// lost: it is done, and the response is lost.
	lost
	// overtaken: someone else writes the report just before.
	overtaken
	// exceeded: a quota does not allow it.
	exceeded
)

// A cluster is an API server for reports, in memory: versions, preconditions, pages and selectors
// as in Kubernetes.
type cluster struct {
	mu      sync.Mutex
	version int
	// reports are by namespace/name.
	reports map[string]*openreports.Report
	missing bool
	// definitions are CustomResourceDefinitions, by name.
	definitions map[string]*metav1.PartialObjectMetadata
	// deleted are namespaces that are being deleted.
	deleted map[string]bool
	// inject says what is to happen to a write; nil means that it works.
	inject func(verb, namespace, name string) outcome
	// writes counts successful writes, deletes some of them, and reads requests that read.
	writes, deletes, reads int
	largest                int
	managers               map[string]bool
}

func newCluster() *cluster {
	return &cluster{reports: map[string]*openreports.Report{}, deleted: map[string]bool{}, managers: map[string]bool{}}
}

// client returns a client of the cluster.
func (c *cluster) client(t *testing.T) rest.Interface {
	t.Helper()
	config := &rest.Config{Host: "http://cluster", QPS: -1, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: c})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// RoundTrip responds to a request.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"); ok {
		return c.definition(r.Method, name), nil
	}
	namespace, name, ok := place(r.URL.Path)
	if !ok || c.missing {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", nil), nil
	}
	if r.Method == http.MethodGet {
		c.reads++
		return c.read(r, namespace, name), nil
	}
	after := works
	if c.inject != nil {
		after = c.inject(r.Method, namespace, name)
	}
	switch after {
	case unavailable:
		return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "etcd is away", nil), nil
	case exceeded:
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "exceeded quota: reports", nil), nil
	case overtaken:
		if stored := c.reports[namespace+"/"+name]; stored != nil {
			changed := *stored
			changed.Results = nil
			c.store(&changed)
		}
	}
	response := c.write(r, namespace, name, body)
	if after == lost {
		return nil, errors.New("connection reset by peer")
	}
	return response, nil
}

// definition responds to a request about a CustomResourceDefinition.
func (c *cluster) definition(verb, name string) *http.Response {
	found := c.definitions[name]
	if found == nil {
		return notFound(name)
	}
	if verb == http.MethodDelete {
		delete(c.definitions, name)
	}
	return success(http.StatusOK, found)
}

// place returns the namespace and name in the path of a request about reports.
func place(path string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/apis/openreports.io/v1alpha1/")
	parts := strings.Split(rest, "/")
	switch {
	case !ok:
		return "", "", false
	case parts[0] == "namespaces" && len(parts) >= 3 && parts[2] == "reports":
		return parts[1], strings.Join(parts[3:], ""), true
	case parts[0] == "reports":
		return "*", "", true
	}
	return "", strings.Join(parts[1:], ""), parts[0] == "clusterreports"
}

func (c *cluster) read(r *http.Request, namespace, name string) *http.Response {
	if name != "" {
		if stored := c.reports[namespace+"/"+name]; stored != nil {
			return success(http.StatusOK, stored)
		}
		return notFound(name)
	}
	query := r.URL.Query()
	var all []*openreports.Report
	for _, id := range slices.Sorted(maps.Keys(c.reports)) {
		stored := c.reports[id]
		in := namespace == stored.Namespace || namespace == "*" && stored.Namespace != ""
		if in && (query.Get("labelSelector") == "" || stored.Labels[openreports.ManagedByLabel] == "usher") {
			all = append(all, stored)
		}
	}
	from, _ := strconv.Atoi(query.Get("continue"))
	to := len(all)
	list := map[string]any{"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}}
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		list["metadata"] = metav1.ListMeta{Continue: strconv.Itoa(to)}
	}
	list["items"] = all[from:to]
	return success(http.StatusOK, list)
}

func (c *cluster) write(r *http.Request, namespace, name string, body []byte) *http.Response {
	c.managers[r.URL.Query().Get("fieldManager")] = true
	if r.Method == http.MethodDelete {
		var o metav1.DeleteOptions
		_ = json.Unmarshal(body, &o)
		stored := c.reports[namespace+"/"+name]
		if stored == nil {
			return notFound(name)
		}
		if o.Preconditions.ResourceVersion != nil && *o.Preconditions.ResourceVersion != stored.ResourceVersion || *o.Preconditions.UID != stored.UID {
			return failure(http.StatusConflict, metav1.StatusReasonConflict, "the precondition failed", nil)
		}
		c.writes++
		c.deletes++
		delete(c.reports, namespace+"/"+name)
		return success(http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	}
	var sent openreports.Report
	if err := json.Unmarshal(body, &sent); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
	}
	stored := c.reports[namespace+"/"+sent.Name]
	switch {
	case r.Method == http.MethodPost && c.deleted[namespace]:
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "it is being terminated",
			&metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "NamespaceTerminating"}}})
	case r.Method == http.MethodPost && stored != nil:
		return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "it exists", nil)
	case r.Method == http.MethodPut && stored == nil:
		return notFound(name)
	case r.Method == http.MethodPut && stored.ResourceVersion != sent.ResourceVersion:
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "it has been modified", nil)
	}
	c.writes++
	c.largest = max(c.largest, len(body))
	return success(http.StatusOK, c.store(&sent))
}

// store stores a new version of a report.
func (c *cluster) store(r *openreports.Report) *openreports.Report {
	c.version++
	if known := c.reports[r.Namespace+"/"+r.Name]; known == nil {
		r.UID = types.UID(fmt.Sprintf("uid-%d", c.version))
	}
	r.ResourceVersion = strconv.Itoa(c.version)
	c.reports[r.Namespace+"/"+r.Name] = r
	return r
}

func success(code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}
}

func failure(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) *http.Response {
	return success(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message, Details: details,
	})
}

func notFound(name string) *http.Response {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, name+" not found", &metav1.StatusDetails{Kind: "reports", Name: name})
}

// do changes the cluster as somebody else.
func (c *cluster) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// snapshot returns copies of all reports, by namespace/name.
func (c *cluster) snapshot() map[string]openreports.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]openreports.Report{}
	for id, r := range c.reports {
		all[id] = *r
	}
	return all
}

// counts returns how many writes there were, and how many of them deleted.
func (c *cluster) counts() (writes, deletes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, c.deletes
}
