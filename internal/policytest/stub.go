package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// stubURL stands in policies for the address at which the stubs of the case answer.
const stubURL = "http://stub.invalid"

// A Stub is one response of the HTTP service of a case. The first stub that matches a request
// answers it; otherwise the response is 404 with a JSON object.
type Stub struct {
	// Path, Method and the required fields must match, as far as they are set.
	Path          string            `json:"path,omitempty"`
	Method        string            `json:"method,omitempty"`
	RequireHeader map[string]string `json:"requireHeader,omitempty"`
	RequireQuery  map[string]string `json:"requireQuery,omitempty"`
	// RequireBody is compared as JSON.
	RequireBody json.RawMessage `json:"requireBody,omitempty"`

	// Status is 200 unless it is set.
	Status         int               `json:"status,omitempty"`
	ResponseHeader map[string]string `json:"responseHeader,omitempty"`
	// Body is the answer as JSON, RawBody as text.
	Body    json.RawMessage `json:"body,omitempty"`
	RawBody *string         `json:"rawBody,omitempty"`
}

// stubServer answers for stubs on a loopback port until it is closed.
type stubServer struct {
	url    string
	server *http.Server
}

func startStubs(ctx context.Context, stubs []Stub) (*stubServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start http stubs: %w", err)
	}
	s := &stubServer{
		url: "http://" + listener.Addr().String(),
		server: &http.Server{
			Handler:           stubHandler(stubs),
			ReadHeaderTimeout: 10 * time.Second,
		},
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *stubServer) close() { _ = s.server.Close() }

func stubHandler(stubs []Stub) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for i := range stubs {
			if stubs[i].fits(r, body) {
				stubs[i].answer(w)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no stub fits " + r.Method + " " + r.URL.Path})
	})
}

func (s *Stub) fits(r *http.Request, body []byte) bool {
	if s.Path != "" && s.Path != r.URL.Path || s.Method != "" && !strings.EqualFold(s.Method, r.Method) {
		return false
	}
	for name, value := range s.RequireHeader {
		if r.Header.Get(name) != value {
			return false
		}
	}
	query := r.URL.Query()
	for name, value := range s.RequireQuery {
		if !query.Has(name) || query.Get(name) != value {
			return false
		}
	}
	return s.RequireBody == nil || equalJSON(s.RequireBody, body)
}

func (s *Stub) answer(w http.ResponseWriter) {
	body := []byte(s.Body)
	if s.RawBody != nil {
		body = []byte(*s.RawBody)
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range s.ResponseHeader {
		w.Header().Set(name, value)
	}
	status := s.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}
