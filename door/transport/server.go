package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

// maxAnswer limits the size of a response, in bytes: a page of objects.
const maxAnswer = 256 << 20

// A server is the API server as a client reaches it.
type server struct{ asked }

// call makes a request in the client's name that is not decided.
func (s *server) call(method, path string, query url.Values, header http.Header, body []byte) (int, []byte, error) {
	to := *s.request.URL
	to.Path, to.RawPath, to.RawQuery = path, "", query.Encode()
	request, err := http.NewRequestWithContext(s.request.Context(), method, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for key, values := range s.request.Header {
		if key == "Authorization" || key == "User-Agent" || strings.HasPrefix(key, "Impersonate-") {
			request.Header[key] = values
		}
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Accept", mediaJSON)
	response, err := s.direct.RoundTrip(request)
	if err != nil {
		return 0, nil, &broken{err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, nil, &broken{fmt.Errorf("%s %s: %w", method, path, err)}
	}
	return response.StatusCode, answer, nil
}

// old returns the object that the request changes, nil if there is none: from a GET of the same URL
// or, if the subresource has no GET or the client may not use it, from a GET of its resource.
func (s *server) old() (map[string]any, error) {
	at := s.request.URL.Path
	code, text, err := s.call(http.MethodGet, at, nil, nil, nil)
	if err == nil && !isOK(code) && s.target.subresource != "" {
		code, text, err = s.call(http.MethodGet, at[:strings.LastIndex(strings.TrimSuffix(at, "/"), "/")], nil, nil, nil)
	}
	switch {
	case err != nil:
		return nil, err
	case code == http.StatusNotFound:
		return nil, nil
	case !isOK(code):
		return nil, fmt.Errorf("read the object as it is, to decide about the change: %s", problem(code, text))
	}
	tree, err := usher.RawObject(text).Tree()
	if err != nil {
		return nil, fmt.Errorf("read the object as it is: %w", err)
	}
	return tree, nil
}

// problem is the error in a response.
func problem(code int, text []byte) string {
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%d %s", code, http.StatusText(code))
}

// send sends the client's request to a URL, with this header and body.
func (s *server) send(to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	request := s.request.Clone(s.request.Context())
	at := *to
	request.URL, request.Header = &at, header.Clone()
	if s.target.verb != connect {
		setBody(request, body)
	}
	response, err := s.next.RoundTrip(request)
	if err != nil {
		return nil, &broken{err}
	}
	return response, nil
}

// setBody sets a body that can be sent again.
func setBody(request *http.Request, body []byte) {
	request.ContentLength = int64(len(body))
	if len(body) == 0 {
		request.Body, request.GetBody = http.NoBody, nil
		return
	}
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	request.Body = io.NopCloser(bytes.NewReader(body))
}

// pass sends the client's request unchanged.
func (s *server) pass() (*http.Response, error) {
	return s.send(s.request.URL, s.request.Header, s.body)
}

// sendObject sends an object as JSON instead of the client's body.
func (s *server) sendObject(mediaType string, tree any) (*http.Response, error) {
	body, err := encode(tree)
	if err != nil {
		return nil, err
	}
	return s.send(s.request.URL, withType(s.request.Header, mediaType), body)
}

func withType(header http.Header, mediaType string) http.Header {
	header = header.Clone()
	header.Set("Content-Type", mediaType)
	return header
}
