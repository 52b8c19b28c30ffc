package transport

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	usher "github.com/usher-dev/usher"
)

const (
	// userTTL is how long the server's answer to who the client is is cached.
	userTTL = time.Minute
	// maxUsers limits how many users are cached.
	maxUsers = 1024
)

// A knownUser is a cached answer of the server.
type knownUser struct {
	usher.User

	until time.Time
}

// user is who makes the request.
func (s *server) user() (usher.User, error) {
	if s.options.User != nil {
		return *s.options.User, nil
	}
	key := identity(s.request.Header)
	s.mu.Lock()
	known, ok := s.users[key]
	s.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.User, nil
	}
	code, text, err := s.call(http.MethodPost, s.prefix+"/apis/authentication.k8s.io/v1/selfsubjectreviews", nil,
		http.Header{"Content-Type": {mediaJSON}}, []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	if err != nil {
		return usher.User{}, err
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(text, &review); !isOK(code) || err != nil {
		return usher.User{}, fmt.Errorf("ask who the user is: %s: set Options.User if the server cannot tell", problem(code, text))
	}
	info := review.Status.UserInfo
	if info.Username == "" {
		return usher.User{}, errors.New("ask who the user is: the server names no user: set Options.User if it cannot tell")
	}
	user := usher.User{Name: info.Username, UID: info.UID, Groups: info.Groups}
	for key, values := range info.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = values
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users) >= maxUsers {
		clear(s.users)
	}
	s.users[key] = knownUser{user, time.Now().Add(userTTL)}
	return user, nil
}

// identity is a text that is the same for requests of the same user. It holds no secret.
func identity(header http.Header) string {
	sum := sha256.New()
	var keys []string
	for key := range header {
		if key == "Authorization" || strings.HasPrefix(key, "Impersonate-") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(sum, "%q %q\n", key, header[key])
	}
	return string(sum.Sum(nil))
}
