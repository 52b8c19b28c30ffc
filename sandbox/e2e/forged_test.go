package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// forged is a review that nobody asked an API server for: its user is made up.
const forged = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged",
"kind":{"group":"","version":"v1","kind":%[2]q},"resource":{"group":"","version":"v1","resource":%[1]q},
"namespace":%[3]q,"name":"x","operation":"CREATE","userInfo":{"username":"system:admin","groups":["system:masters"]},
"object":{"apiVersion":"v1","kind":%[2]q,"metadata":{"name":"x","namespace":%[3]q,"labels":{"app":"forbidden"}}}}}`

// TestForgedReviewsAreNotAnswered has somebody in the cluster post reviews to the Service.
func TestForgedReviewsAreNotAnswered(t *testing.T) {
	t.Parallel()
	behind := newNetwork(t)
	r := newRig(t, sandbox.Options{
		Exclusive: true,
		Services:  []string{usher.Namespace + "/usher=" + behind.address()},
	})
	process := r.launchService(t)
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	behind.lead(host(t, process.URL))
	namespace := r.Namespace(t)
	r.enforce(t, labelling(t, namespace, namespace, "asked"))
	r.enforce(t, parse(t, forbidding, namespace))
	r.acting(t, namespace, "asked")
	registered := r.registeredPaths(t)
	client, err := process.Client()
	if err != nil {
		t.Fatal(err)
	}
	guess := strings.Repeat("0123456789abcdef", 4)
	mutate, validate := registered["mutate.usher.dev"], registered["validate.usher.dev"]
	for _, row := range []struct {
		reason, path, resource, kind string
		want                         int
	}{
		{"the path that everybody knows", "/mutate", "configmaps", "ConfigMap", http.StatusNotFound},
		{"the path that everybody knows", "/validate", "configmaps", "ConfigMap", http.StatusNotFound},
		{"a guess", "/mutate/" + guess, "configmaps", "ConfigMap", http.StatusNotFound},
		{"a guess", "/validate/" + guess, "configmaps", "ConfigMap", http.StatusNotFound},
		{"a longer path", mutate + "/x", "configmaps", "ConfigMap", http.StatusNotFound},
		{"a shorter path", mutate[:len(mutate)-1], "configmaps", "ConfigMap", http.StatusNotFound},
		{"the digits of the other phase", "/validate/" + mutate[len("/mutate/"):], "configmaps", "ConfigMap", http.StatusNotFound},
		{"upper case", "/mutate/" + strings.ToUpper(mutate[len("/mutate/"):]), "configmaps", "ConfigMap", http.StatusNotFound},
		{"the name of another entry", "/validate-policies", "configmaps", "ConfigMap", http.StatusNotFound},
		{"another word", "/authorize", "configmaps", "ConfigMap", http.StatusNotFound},
		{"what API servers ask", mutate, "configmaps", "ConfigMap", http.StatusOK},
		{"what API servers ask", validate, "configmaps", "ConfigMap", http.StatusOK},
		{"a resource that they do not send there", mutate, "secrets", "Secret", http.StatusForbidden},
		{"a resource that they send to the other entry", validate, "pods", "Pod", http.StatusForbidden},
	} {
		response, err := client.Post(process.URL+row.path, "application/json", strings.NewReader(fmt.Sprintf(forged, row.resource, row.kind, namespace)))
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
			continue
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != row.want {
			t.Errorf("%s: %s of %s: status %d, want %d", row.reason, strings.Split(row.path, "/")[1], row.resource, response.StatusCode, row.want)
		}
		if told := string(body); row.want != http.StatusOK && (strings.Contains(told, "allowed") || strings.Contains(told, namespace) || strings.Contains(told, "not here")) {
			t.Errorf("%s: told %s", row.reason, told)
		}
	}
	if refused := metric(t, process, `usher_refused_callers_total{door="admission",reason="path"}`); refused < 10 {
		t.Errorf("%v refused callers were counted", refused)
	}
	if refused := metric(t, process, `usher_refused_callers_total{door="admission",reason="resource"}`); refused != 2 {
		t.Errorf("%v reviews of other resources were counted", refused)
	}
}
