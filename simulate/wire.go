package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// A call is one call of a webhook.
type call struct {
	hook hookName
	url  string
	by   string
	// request and response are the bodies; err is why there is no response.
	request, response []byte
	code              int
	err               error
	took              time.Duration
	// after is the object as the answer has left it; nil if it changed nothing.
	after runtime.Object
}

// wire wraps the transport of a webhook's client.
func (s *Simulator) wire(next http.RoundTripper) http.RoundTripper { return &wire{sim: s, next: next} }

// A wire lets runs see the calls of webhooks, and decides who answers them.
type wire struct {
	sim  *Simulator
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	r := runOf(request.Context())
	c := &call{hook: hookOf(request.Context()), url: request.URL.String()}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, fmt.Errorf("read review: %w", err)
		}
		c.request = body
		_ = request.Body.Close()
	}
	if known, ok := request.Context().Value(knownKey{}).(*knownAnswer); ok {
		return known.answer(request, c)
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	start := time.Now()
	response, err := w.send(request, c)
	if err == nil {
		c.code = response.StatusCode
		c.response, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	c.took, c.err = time.Since(start), err
	if w.sim.options.Record != nil {
		w.sim.options.Record.add(c)
	}
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(c.response))
	return response, nil
}

type knownKey struct{}

// A knownAnswer answers for one webhook as it has answered already, and for others that they allow.
type knownAnswer struct {
	hook     hookName
	answered *Recording
}

func (k *knownAnswer) answer(request *http.Request, c *call) (*http.Response, error) {
	if c.hook == k.hook {
		return k.answered.replay(request, c)
	}
	var sent struct {
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(c.request, &sent); err != nil {
		return nil, fmt.Errorf("decode review: %w", err)
	}
	question, _ := questionOf(c.request)
	allow := fmt.Sprintf(`{"apiVersion":%q,"kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, sent.APIVersion, uidMark)
	allowing := &Recording{Exchanges: []Exchange{{
		Configuration: c.hook.configuration, Webhook: c.hook.webhook, Request: question, Code: http.StatusOK, Response: json.RawMessage(allow),
	}}}
	return allowing.replay(request, c)
}

// firstError returns the error of the first validating webhook that refuses, in the order of the configurations, if several
// did: an API server returns that of the one that was the fastest. validate runs the plugin, and err is what it returned.
func (c *chain) firstError(ctx context.Context, calls []*call, err error, validate func(context.Context) error) error {
	if err == nil || len(calls) < 2 || ctx.Err() != nil {
		return err
	}
	for _, hook := range c.validatingHooks.Webhooks() {
		name := hookName{hook.GetConfigurationName(), hook.GetName()}
		i := slices.IndexFunc(calls, func(made *call) bool { return made.hook == name })
		if i < 0 {
			continue
		}
		answered := &Recording{}
		answered.add(calls[i])
		if first := validate(context.WithValue(ctx, knownKey{}, &knownAnswer{name, answered})); first != nil {
			return first
		}
	}
	return err
}

// send has the call answered by whom it may concern.
func (w *wire) send(request *http.Request, c *call) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Body = io.NopCloser(bytes.NewReader(c.request))
	request.ContentLength = int64(len(c.request))
	if w.sim.options.Replay != nil {
		c.by = "recording"
		return w.sim.options.Replay.replay(request, c)
	}
	if w.sim.options.Local != nil {
		if handler := w.sim.options.Local(c.hook.configuration, c.hook.webhook); handler != nil {
			c.by = "usher, in process"
			return serveLocally(handler, request), nil
		}
	}
	target, err := w.sim.mapped(request.URL)
	switch {
	case err != nil:
		return nil, err
	case target == nil:
		return w.next.RoundTrip(request)
	}
	c.by = target.String()
	request.URL.Path = strings.TrimSuffix(target.Path, "/") + request.URL.Path
	if target.Scheme == "http" {
		request.URL.Scheme, request.URL.Host = target.Scheme, target.Host
		return http.DefaultTransport.RoundTrip(request)
	}
	return w.next.RoundTrip(request)
}

// mapped is where the Service in the URL of a call is; nil if it is none, or not mapped.
func (s *Simulator) mapped(target *url.URL) (*url.URL, error) {
	service, ok := strings.CutSuffix(target.Hostname(), ".svc")
	if !ok {
		return nil, nil
	}
	name, namespace, ok := strings.Cut(service, ".")
	if !ok {
		return nil, nil
	}
	port, err := strconv.ParseInt(target.Port(), 10, 32)
	if err != nil {
		port = 443
	}
	return s.service(namespace, name, int32(port))
}

// service is where a Service is; nil if nobody said so.
func (s *Simulator) service(namespace, name string, port int32) (*url.URL, error) {
	key := namespace + "/" + name
	text, ok := s.options.Services[fmt.Sprintf("%s:%d", key, port)]
	if !ok {
		if text, ok = s.options.Services[key]; !ok {
			return nil, nil
		}
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", key, err)
	}
	if target.Port() == "" && target.Scheme == "https" {
		target.Host += ":443"
	}
	return target, nil
}

// serveLocally lets a handler answer without a network.
func serveLocally(handler http.Handler, request *http.Request) *http.Response {
	recorder := &localResponse{header: http.Header{}, code: http.StatusOK}
	handler.ServeHTTP(recorder, request)
	return &http.Response{
		Status: http.StatusText(recorder.code), StatusCode: recorder.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: recorder.header, Body: io.NopCloser(&recorder.body), ContentLength: int64(recorder.body.Len()), Request: request,
	}
}

type localResponse struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (r *localResponse) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *localResponse) WriteHeader(code int) { r.code = code }

// Write implements [http.ResponseWriter].
func (r *localResponse) Write(text []byte) (int, error) { return r.body.Write(text) }
