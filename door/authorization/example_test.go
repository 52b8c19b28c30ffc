package authorization_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
)

// An authorization webhook: users of a group may read, and everything else is up to other authorizers.
func ExampleAuthorize() {
	decide := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Access.Verb == "get" && r.User.Name == "jane" {
			return usher.Allowed(), nil
		}
		return usher.Decision{}, nil
	})
	handler := authorization.Authorize(decide, authorization.Options{})

	review := `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
		"user": "jane", "resourceAttributes": {"verb": "get", "version": "v1", "resource": "pods", "namespace": "shop"}}}`
	request := httptest.NewRequest(http.MethodPost, "/authorize", strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	fmt.Println(response.Code, strings.Contains(response.Body.String(), `"allowed":true`))
	// Output: 200 true
}
