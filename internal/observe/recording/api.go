package recording

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/delegated"
)

// mostListed is how many recordings a list has.
const mostListed = 200

// ServeHTTP implements [http.Handler]: a list has what names the newest recordings, and each has its UID as its name. It
// is a resource of the API that [delegated] guards.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, ok := delegated.RequestOf(r.Context())
	if !ok {
		http.Error(w, "the caller is not known", http.StatusForbidden)
		return
	}
	resource := schema.GroupResource{Group: delegated.Group, Resource: delegated.Recordings}
	var body []byte
	switch {
	case request.Verb == "watch":
		delegated.WriteStatus(w, apierrors.NewMethodNotSupported(resource, "watch"))
		return
	case request.Name != "":
		if body = s.Find(request.Namespace, request.Name); body == nil {
			delegated.WriteStatus(w, apierrors.NewNotFound(resource, request.Name))
			return
		}
	default:
		var err error
		body, err = json.Marshal(map[string]any{"apiVersion": delegated.Group + "/v1", "kind": "RecordingList", "items": s.Last(request.Namespace, mostListed)})
		if err != nil {
			delegated.WriteStatus(w, apierrors.NewInternalError(fmt.Errorf("encode recordings: %w", err)))
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
