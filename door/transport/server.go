package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes: a page of objects.
	maxAnswer = 256 << 20
	// userTTL is how long the server's word on who the client is is taken.
	userTTL = time.Minute
	// maxUsers bounds how many users are remembered.
	maxUsers = 1024
)

// call makes a request of its own in the client's name, which nobody decides about.
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
	for key, values := range header {
		request.Header[key] = values
	}
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

// old returns the object that the request is about, nil if there is none: what a GET of the
// same URL gives, or, where a subresource has no GET or the client may not use it, a GET of
// its resource.
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

// problem is what an answer says is wrong.
func problem(code int, text []byte) string {
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%d %s", code, http.StatusText(code))
}

// A knownUser is one that the server has told of.
type knownUser struct {
	usher.User

	until time.Time
}

// user is who makes the request.
func (x *exchange) user() (usher.User, error) {
	if x.options.User != nil {
		return *x.options.User, nil
	}
	key := identity(x.request.Header)
	x.mu.Lock()
	known, ok := x.users[key]
	x.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.User, nil
	}
	code, text, err := x.call(http.MethodPost, x.prefix+"/apis/authentication.k8s.io/v1/selfsubjectreviews", nil,
		http.Header{"Content-Type": {mediaJSON}}, []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	if err != nil {
		return usher.User{}, err
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(text, &review); !isOK(code) || err != nil {
		return usher.User{}, fmt.Errorf("ask who the user is: %s: set Options.User if the server cannot tell", problem(code, text))
	}
	info := review.Status.UserInfo
	user := usher.User{Name: info.Username, UID: info.UID, Groups: info.Groups}
	for key, values := range info.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = values
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.users) >= maxUsers {
		clear(x.users)
	}
	x.users[key] = knownUser{user, time.Now().Add(userTTL)}
	return user, nil
}
