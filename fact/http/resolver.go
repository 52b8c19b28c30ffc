// Package http gets facts from HTTP services.
//
// The author of a policy decides where requests go. They are therefore restricted: certificates are
// verified, redirects stay on their host, responses are limited in size, loopback, link-local and
// metadata addresses are rejected, and only the credentials in the policy itself are sent.
package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/fact"
)

const (
	// maxBody is how large an answer may be, in bytes.
	maxBody = 1 << 20
	// defaultTimeout applies to requests without a timeout.
	defaultTimeout = 3 * time.Second
)

// Options are what a [Resolver] may do. The zero value is strict.
type Options struct {
	// AllowLocal permits loopback, link-local, unspecified and multicast addresses, those of
	// cloud metadata services, of this machine and of Own. The check is made on the address
	// that is dialled, after name resolution.
	AllowLocal bool
	// Own are the names under which others reach this program, such as that of its Service.
	Own []string
	// Resolver looks up names; nil means net.DefaultResolver.
	Resolver *net.Resolver
	// Proxy chooses the proxy of a request, as in net/http.Transport; nil uses none. A
	// proxy resolves names itself: what AllowLocal forbids is then up to it.
	Proxy func(*nethttp.Request) (*url.URL, error)
	// Timeout limits requests whose ref has no timeout; 0 means three seconds.
	Timeout time.Duration
	// Now is the clock for the lifetime of tokens; nil means time.Now.
	Now func() time.Time
}

// A Resolver makes HTTP requests. Connections are kept and reused. Errors contain neither
// credentials nor parameters.
type Resolver struct {
	timeout time.Duration
	clients *clients
	tokens  *tokens
}

var _ fact.Resolver = (*Resolver)(nil)

// New returns a Resolver.
func New(o Options) *Resolver {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Resolver{timeout: o.Timeout, clients: newClients(o)}
	r.tokens = newTokens(o.Now, r.fetchToken)
	return r
}

// Resolve makes the request of ref, which takes at most as long as ref and ctx allow.
func (r *Resolver) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	h, ok := ref.(*fact.HTTP)
	if !ok {
		return nil, fmt.Errorf("resolve %s: it is not an HTTP request", ref)
	}
	timeout := r.timeout
	if h.Timeout > 0 {
		timeout = h.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	client, err := r.clients.of(h.TLS)
	if err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, h)
	if err != nil {
		return nil, err
	}
	var token string
	if h.Auth != nil {
		if token, err = r.tokens.token(ctx, *h.Auth); err != nil {
			return nil, fmt.Errorf("get token from %s: %w", public(h.Auth.URL), err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := do(client, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if h.Auth != nil && response.StatusCode == nethttp.StatusUnauthorized {
		r.tokens.refused(*h.Auth, token)
	}
	return readAnswer(response)
}

func newRequest(ctx context.Context, h *fact.HTTP) (*nethttp.Request, error) {
	method := h.Method
	if method == "" {
		method = nethttp.MethodGet
	}
	if err := checkURL(h.URL); err != nil {
		return nil, err
	}
	request, err := nethttp.NewRequestWithContext(ctx, method, h.URL, strings.NewReader(h.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: method %q is not possible", method)
	}
	request.Header.Set("User-Agent", "usher")
	for name, value := range h.Header {
		request.Header.Set(name, value)
	}
	if len(h.Trailer) > 0 {
		request.Trailer = make(nethttp.Header, len(h.Trailer))
		for name, value := range h.Trailer {
			request.Trailer.Set(name, value)
		}
		request.ContentLength = -1 // trailers follow a body of unknown length only
	}
	return request, nil
}

// checkURL does not repeat the URL, which may hold credentials.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("the URL is missing")
	case err != nil:
		return errors.New("the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the URL has the scheme %q: only http and https are possible", u.Scheme)
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	}
	return nil
}

// do makes the request. Its errors omit the URL.
func do(client *nethttp.Client, request *nethttp.Request) (*nethttp.Response, error) {
	response, err := client.Do(request)
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		err = withURL.Err
	}
	return response, err
}

// readAnswer returns the value of the fact.
func readAnswer(response *nethttp.Response) (any, error) {
	text, err := readBody(response)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil || body == nil {
		return nil, fmt.Errorf("the answer %s has a body that is not a JSON object", response.Status)
	}
	return map[string]any{
		"body":    body,
		"header":  headerTree(response.Header),
		"trailer": headerTree(response.Trailer),
	}, nil
}

func readBody(response *nethttp.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read body of answer %s: %w", response.Status, err)
	}
	if len(text) > maxBody {
		return nil, fmt.Errorf("the answer %s has a body of more than %d bytes", response.Status, maxBody)
	}
	return text, nil
}

func headerTree(header nethttp.Header) map[string]any {
	tree := make(map[string]any, len(header))
	for name, values := range header {
		list := make([]any, len(values))
		for i, value := range values {
			list[i] = value
		}
		tree[name] = list
	}
	return tree
}

// public is a URL without its secrets.
func public(text string) string {
	return strings.TrimSpace((&fact.HTTP{URL: text}).String())
}
