package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hooks are webhooks that do what their path says.
type hooks struct{ *httptest.Server }

func newHooks(t *testing.T) *hooks {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveHook))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return &hooks{server}
}

// ca is what those who call are to trust.
func (h *hooks) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

// A hookObject is what the hooks look at.
type hookObject struct {
	APIVersion string            `json:"apiVersion"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Data       map[string]string `json:"data"`
}

func serveHook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("not a review: ", err), http.StatusBadRequest)
		return
	}
	word, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch word {
	case "status":
		code, _ := strconv.Atoi(rest)
		http.Error(w, "hook says "+rest, code)
		return
	case "garbage":
		_, _ = io.WriteString(w, "{garbage")
		return
	case "slow":
		seconds, _ := strconv.Atoi(rest)
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	respond(word, rest, review.Request, answer)
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// respond fills in the answer of a hook.
func respond(word, rest string, q *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
	var object hookObject
	_ = json.Unmarshal(q.Object.Raw, &object)
	switch word {
	case "deny":
		deny(a, &metav1.Status{Message: fmt.Sprintf("%s of %s is not wanted", q.Operation, q.Resource.Resource)})
	case "deny-silently":
		deny(a, nil)
	case "deny-teapot":
		deny(a, &metav1.Status{Message: "a teapot", Reason: "Teapot", Code: http.StatusTeapot, Details: &metav1.StatusDetails{Kind: "pot"}})
	case "deny-unless-dry-run":
		a.Allowed = q.DryRun != nil && *q.DryRun
	case "deny-without-name":
		a.Allowed = q.Name != "" && object.Metadata.Name == q.Name
	case "warn":
		a.Warnings = []string{"careful: " + rest, "careful: " + rest, "bad\nline"}
	case "warn-long":
		for i := range 20 {
			a.Warnings = append(a.Warnings, strings.Repeat(string(rune('a'+i)), 300))
		}
	case "audit":
		a.AuditAnnotations = map[string]string{"said": rest}
	case "wrong-uid":
		a.UID = "somebody-else"
	default:
		respondPatch(word, rest, q, &object, a)
	}
}

func deny(a *admissionv1.AdmissionResponse, status *metav1.Status) {
	a.Allowed, a.Result = false, status
}

func respondPatch(word, rest string, q *admissionv1.AdmissionRequest, object *hookObject, a *admissionv1.AdmissionResponse) {
	patch := ""
	switch word {
	case "label":
		key, value, _ := strings.Cut(rest, "=")
		patch = labelPatch(object, key, value)
	case "name-as-label":
		patch = labelPatch(object, "name", "name-"+q.Name+"-x")
	case "echo-version":
		patch = labelPatch(object, "version", strings.ReplaceAll(object.APIVersion, "/", "-"))
	case "append":
		patch = fmt.Sprintf(`[{"op":"add","path":"/data","value":{"order":%q}}]`, object.Data["order"]+rest)
	case "other-namespace":
		patch = `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`
	case "unknown-field":
		patch = `[{"op":"add","path":"/spec/strange","value":1}]`
	case "bad-patch":
		patch = `[{"op":"add","path":"/no/such/place","value":1}]`
	case "undecodable-patch":
		patch = `{"not": "a list"}`
	case "patch-without-type":
		a.Patch = []byte(`[]`)
		return
	default:
		return
	}
	kind := admissionv1.PatchTypeJSONPatch
	a.Patch, a.PatchType = []byte(patch), &kind
}

func labelPatch(object *hookObject, key, value string) string {
	if object.Metadata.Labels == nil {
		return fmt.Sprintf(`[{"op":"add","path":"/metadata/labels","value":{%q:%q}}]`, key, value)
	}
	return fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, key, value)
}
