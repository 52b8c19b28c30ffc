package admission_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestDoor(t *testing.T) {
	t.Parallel()
	doortest.Run(t, func(t *testing.T, d usher.Decider) doortest.Door {
		mux := http.NewServeMux()
		for phase, handler := range handlers(d, quiet()) {
			mux.Handle("/"+string(phase), handler)
		}
		server := httptest.NewUnstartedServer(mux)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return &apiServer{server}
	})
}

// An apiServer is what an API server does around a webhook.
type apiServer struct{ webhook *httptest.Server }

func (s *apiServer) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	body, err := json.Marshal(reviewOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	url := s.webhook.URL + "/" + string(r.Phase) + "?timeout=5s"
	response, err := s.webhook.Client().Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", response.StatusCode, err, answer)
	}
	verified := verify(t, r.Phase, body, answer)
	got := doortest.Answer{Verdict: usher.Allow, Warnings: verified.Warnings}
	if !verified.Allowed {
		got.Verdict, got.Reason, got.Message = usher.Deny, string(verified.Result.Reason), verified.Result.Message
		if got.Code = verified.Result.Code; got.Code < http.StatusBadRequest {
			got.Code = http.StatusBadRequest
		}
	}
	raw, err := r.Object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	if verified.Allowed && len(verified.Patch) > 0 {
		raw = apply(t, raw, verified.Patch)
	}
	if got.Object, err = usher.RawObject(raw).Tree(); err != nil {
		t.Fatal(err)
	}
	return got
}

func apply(t *testing.T, object, patch []byte) []byte {
	t.Helper()
	if object == nil {
		t.Fatalf("patch of nothing: %s", patch)
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := decoded.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}

// reviewOf is the review that an API server sends for r.
func reviewOf(t *testing.T, r *usher.Request) *admissionv1.AdmissionReview {
	t.Helper()
	q := &admissionv1.AdmissionRequest{
		UID:         types.UID(r.UID),
		Kind:        metav1.GroupVersionKind(r.Kind),
		Resource:    metav1.GroupVersionResource(r.Resource),
		SubResource: r.Subresource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		Operation:   admissionv1.Operation(r.Operation),
		DryRun:      &r.DryRun,
		UserInfo:    authenticationv1.UserInfo{Username: r.User.Name, UID: r.User.UID, Groups: r.User.Groups},
	}
	for key, values := range r.User.Extra {
		if q.UserInfo.Extra == nil {
			q.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		}
		q.UserInfo.Extra[key] = values
	}
	for target, object := range map[*runtime.RawExtension]*usher.Object{
		&q.Object: r.Object, &q.OldObject: r.OldObject, &q.Options: r.Options,
	} {
		raw, err := object.Raw()
		if err != nil {
			t.Fatal(err)
		}
		target.Raw = raw
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  q,
	}
}
