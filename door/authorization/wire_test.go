package authorization_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/policytest"
)

// wireCases are of a list of HTTP requests to the authorization webhooks, with what has to be
// true of the answers. Unless a state says something else there is one policy, which allows
// group devs to get pods.
func wireCases(d policytest.Document) ([]caseTest, error) {
	var cases []wireTest
	var raw []map[string]json.RawMessage
	if err := d.DecodeLoosely(&raw); err != nil {
		return nil, err
	}
	if err := d.DecodeLoosely(&cases); err != nil {
		return nil, err
	}
	tests := make([]caseTest, len(cases))
	for i, c := range cases {
		c.unknown = unknownKeys(raw[i], wireFields)
		tests[i] = caseTest{c.Name, c.faults}
	}
	return tests, nil
}

// A wireTest is one of these requests.
type wireTest struct {
	Name string `json:"name"`
	Note string `json:"note,omitempty"`

	Method string `json:"method,omitempty"`
	// Path may have a query. It is /authorize if it is empty.
	Path        string            `json:"path,omitempty"`
	Header      map[string]string `json:"header,omitempty"`
	ContentType *string           `json:"contentType,omitempty"`
	// Body is a review; RawBody any text in its place. RawBodySuffix comes behind the body,
	// and BodyBytes is the size that it is brought to, with space. Without any of them the
	// body is a review by user jane of group devs, or with what the case says of the request.
	Body          json.RawMessage `json:"body,omitempty"`
	RawBody       *string         `json:"rawBody,omitempty"`
	RawBodySuffix string          `json:"rawBodySuffix,omitempty"`
	BodyBytes     int             `json:"bodyBytes,omitempty"`
	policytest.AccessRequest

	// TLS tells what the caller shows, and State what is the matter with the server.
	TLS   string `json:"tls,omitempty"`
	State string `json:"state,omitempty"`

	Want wireWant `json:"want"`

	unknown []string
}

// wireFields are the keys that a case may have.
var wireFields = []string{
	"name", "note", "method", "path", "header", "contentType", "body", "rawBody", "rawBodySuffix", "bodyBytes", "tls", "state", "want",
	"user", "uid", "groups", "extra", "verb", "group", "version", "resource", "subresource", "objname", "namespace", "labels", "fields",
}

func unknownKeys(object map[string]json.RawMessage, known []string) []string {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, key) {
			unknown = append(unknown, fmt.Sprintf("%s: not known: cases have %s", key, strings.Join(known, ", ")))
		}
	}
	return unknown
}

// A wireAnswer is what the caller gets. Without status there was no connection.
type wireAnswer struct {
	err    error
	status int
	header http.Header
	body   []byte
	review struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Spec       *json.RawMessage `json:"spec"`
		Status     map[string]any   `json:"status"`
	}
}

func (a *wireAnswer) flag(name string) bool {
	value, _ := a.review.Status[name].(bool)
	return value
}

func (a *wireAnswer) text(name string) string {
	value, _ := a.review.Status[name].(string)
	return value
}

// String is the answer for messages.
func (a *wireAnswer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d %s", a.status, bytes.TrimSpace(a.body))
}

func (t *wireTest) faults(ctx context.Context) []string {
	if len(t.unknown) > 0 {
		return t.unknown
	}
	server, err := newWireServer(t.State, t.TLS)
	if err != nil {
		return []string{err.Error()}
	}
	defer server.close()
	if t.State == "reload" {
		return server.reload(ctx, t)
	}
	body, err := t.body()
	if err != nil {
		return []string{err.Error()}
	}
	if t.State == "overload" {
		defer server.occupy(ctx, t, body)()
	}
	answer := server.send(ctx, t, body)
	faults := t.Want.faults(answer)
	if t.Want.ServerStaysUp {
		if again := server.send(ctx, t, body); again.status != answer.status {
			faults = append(faults, fmt.Sprintf("expected the server to stay up, the next answer is %s", again))
		}
	}
	return faults
}

// body is what is sent.
func (t *wireTest) body() ([]byte, error) {
	var body []byte
	switch {
	case t.RawBody != nil:
		body = []byte(*t.RawBody)
	case len(t.Body) > 0:
		body = t.Body
	default:
		var err error
		if body, err = t.review(); err != nil {
			return nil, err
		}
	}
	if name := strings.ToLower(t.Name); t.RawBody == nil && len(t.Body) == 0 && strings.Contains(name, "invalid utf") {
		// YAML cannot say this.
		body = bytes.Replace(body, []byte(`"jane"`), []byte("\"ja\xffne\""), 1)
	}
	body = append(slices.Clone(body), t.RawBodySuffix...)
	if missing := t.BodyBytes - len(body); missing > 0 {
		body = append(body, bytes.Repeat([]byte(" "), missing)...)
	}
	return body, nil
}

// ours are the resources that a case may name without group.
var ours = []string{"authorizationpolicies", "clusterauthorizationpolicies"}

// review is the review of the request that a case describes.
func (t *wireTest) review() ([]byte, error) {
	q := t.AccessRequest
	if q.User == "" && q.Groups == nil {
		q.User, q.Groups = "jane", []string{"devs"}
	}
	if q.Verb == "" && q.Resource == "" {
		q.Verb, q.Resource, q.Namespace, q.ObjName = "get", "pods", "a", "p"
	}
	if q.Group == "" && slices.Contains(ours, q.Resource) {
		q.Group = "usher.dev"
	}
	if strings.HasPrefix(t.State, "costly-") {
		for i := range 100 {
			q.Groups = append(q.Groups, fmt.Sprintf("group-%d", i))
		}
	}
	return json.Marshal(cluster.SubjectAccessReview(q.Request()))
}

// send sends a body as an API server does.
func (s *wireServer) send(ctx context.Context, t *wireTest, body []byte) *wireAnswer {
	answer := &wireAnswer{}
	url := s.url + cmp.Or(t.Path, "/authorize")
	request, err := http.NewRequestWithContext(ctx, cmp.Or(t.Method, http.MethodPost), url, bytes.NewReader(body))
	if err != nil {
		answer.err = err
		return answer
	}
	request.Header.Set("Content-Type", "application/json")
	if t.ContentType != nil {
		request.Header.Set("Content-Type", *t.ContentType)
	}
	if t.TLS == "token" {
		request.Header.Set("Authorization", "Bearer of another token")
	}
	for name, value := range t.Header {
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		answer.err = err
		return answer
	}
	defer func() { _ = response.Body.Close() }()
	answer.status, answer.header = response.StatusCode, response.Header
	if answer.body, answer.err = io.ReadAll(response.Body); answer.err == nil && answer.status == http.StatusOK {
		answer.err = json.Unmarshal(answer.body, &answer.review)
	}
	return answer
}

// wireTimeout bounds one HTTP request.
const wireTimeout = 10 * time.Second

// newWireClient is a client that shows what config has, on connections of its own.
func newWireClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: wireTimeout, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
}
