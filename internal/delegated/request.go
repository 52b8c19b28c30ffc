package delegated

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A Request is the request of an authorized caller. A handler must serve nothing but what it names.
type Request struct {
	User user.Info
	// Verb is get, list or watch.
	Verb     string
	Resource string
	// Namespace is empty for cluster-scoped objects and, if Name is empty, too, for the whole
	// cluster.
	Namespace string
	Name      string
}

type requestKey struct{}

// RequestOf returns the request that a handler serves. It is false for requests that did not pass
// through an [API].
func RequestOf(ctx context.Context) (Request, bool) {
	r, ok := ctx.Value(requestKey{}).(Request)
	return r, ok
}

// withRequest is the request for the handler: without what proves who the caller is.
func withRequest(ctx context.Context, r *http.Request, request Request) *http.Request {
	r = r.Clone(context.WithValue(ctx, requestKey{}, request))
	r.Header.Del("Authorization")
	return r
}

// parse parses a request. The paths are those of the Kubernetes API:
//
//	/usher/v1[/namespaces/NAMESPACE]                        the caller's own rights
//	/usher/v1[/namespaces/NAMESPACE]/RESOURCE[?watch=true]  list or watch
//	/usher/v1[/namespaces/NAMESPACE]/RESOURCE/NAME          get
//
// Authorization and handlers both use the result. So paths have only one form: no escapes, no empty
// or dot segments.
func parse(r *http.Request) (Request, error) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return Request{}, apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group}, r.Method)
	case impersonates(r.Header):
		return Request{}, apierrors.NewBadRequest("impersonation is not supported: send the credentials of the user")
	case len(r.Header.Values("Authorization")) > 1:
		return Request{}, apierrors.NewBadRequest("the request has several Authorization headers")
	}
	rest, ok := strings.CutPrefix(r.URL.Path, Root)
	if !ok || r.URL.RawPath != "" || rest != "" && rest[0] != '/' {
		return Request{}, notFound("no such path: everything is below %s/", Root)
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/"), "/")
	request := Request{Verb: "get"}
	if len(parts) > 1 && parts[0] == "namespaces" {
		request.Namespace, parts = parts[1], parts[2:]
		if len(validation.IsDNS1123Label(request.Namespace)) > 0 {
			return Request{}, notFound("no such path: a namespace has another form")
		}
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0] == "" {
		return request, nil
	}
	if !slices.Contains(Resources(), parts[0]) || len(parts) > 2 {
		return Request{}, notFound("no such path: the resources are %s", strings.Join(Resources(), ", "))
	}
	request.Resource = parts[0]
	if len(parts) == 2 {
		request.Name = parts[1]
		if len(validation.IsDNS1123Subdomain(request.Name)) > 0 {
			return Request{}, notFound("no such path: a name has another form")
		}
		return request, nil
	}
	request.Verb = "list"
	if watches(r) {
		request.Verb = "watch"
	}
	return request, nil
}

// watches reads the parameter as API servers do.
func watches(r *http.Request) bool {
	values := r.URL.Query()["watch"]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// impersonates reports whether a caller requests impersonation. Serving them as themselves could
// show more than they expect.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// label is the resource as metrics name it.
func (r Request) label() string {
	if r.Resource == "" && r.Verb != "" {
		return "access"
	}
	return r.Resource
}

func (r Request) attributes() authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: r.User, Verb: r.Verb, Namespace: r.Namespace, Name: r.Name,
		APIGroup: Group, APIVersion: "v1", Resource: r.Resource, ResourceRequest: true,
	}
}
