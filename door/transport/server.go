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

// call makes a request in the client's name that is not decided.
func (x *exchange) call(method, path string, query url.Values, header http.Header, body []byte) (int, []byte, error) {
	to := *x.request.URL
	to.Path, to.RawPath, to.RawQuery = path, "", query.Encode()
	request, err := http.NewRequestWithContext(x.request.Context(), method, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for key, values := range x.request.Header {
		if key == "Authorization" || key == "User-Agent" || strings.HasPrefix(key, "Impersonate-") {
			request.Header[key] = values
		}
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Accept", mediaJSON)
	response, err := x.direct.RoundTrip(request)
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
func (x *exchange) old() (map[string]any, error) {
	at := x.request.URL.Path
	code, text, err := x.call(http.MethodGet, at, nil, nil, nil)
	if err == nil && !isOK(code) && x.target.subresource != "" {
		code, text, err = x.call(http.MethodGet, at[:strings.LastIndex(strings.TrimSuffix(at, "/"), "/")], nil, nil, nil)
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
