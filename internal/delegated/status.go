package delegated

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// notFound is the status for a path that there is not.
func notFound(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(format, args...),
	}}
}

// forbidden is the status of a denied request, with the text of API servers.
func forbidden(r Request, reason string) error {
	scope := "at the cluster scope"
	if r.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", r.Namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", r.User.GetName(), r.Verb, r.Resource, Group, scope)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: Group, Resource: r.Resource}, r.Name, errors.New(text))
}

// WriteStatus answers with the Status that an error has.
func WriteStatus(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	switch status.Code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", "GET, HEAD")
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	send(w, int(status.Code), append(body, '\n'))
}

func send(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// If this fails, the caller has disconnected.
	_, _ = w.Write(body)
}

// A response records its status.
type response struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap gives [http.ResponseController] access to the wrapped writer.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
