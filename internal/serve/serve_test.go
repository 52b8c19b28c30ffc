package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/serve"
)

const reviews = "../../door/admission/testdata/reviews/"

func TestServeEnforcesEditsAndNothingThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	policies := t.TempDir()
	file := filepath.Join(policies, "label.yaml")
	write(t, file, label("one"))
	h := start(t, serve.Config{Policies: []string{policies}, TLS: serve.TLS{CertDir: t.TempDir()}})

	review := read(t, reviews+"v1-create-pods.json")
	h.eventually("the first policy is in force", func() bool { return strings.Contains(h.patch(review), `"one"`) })

	write(t, file, label("two"))
	h.eventually("the edit is in force", func() bool { return strings.Contains(h.patch(review), `"two"`) })

	write(t, file, strings.Replace(label("three"), "plaintext:", "cue: 'patches: missing'\n      plaintext:", 1))
	h.eventually("the broken edit is shown", func() bool {
		return strings.Contains(h.get("/readyz?verbose"), "label.yaml:")
	})
	verbose := h.get("/readyz?verbose")
	for _, want := range []string{
		"failing: policies\nok\n", "problems: 1\n", "spec.overrideRules[0].overriders.cue: ",
		"last good version: 1\n  ClusterOverridePolicy label\n",
	} {
		if !strings.Contains(verbose, want) {
			t.Errorf("/readyz?verbose has no %q:\n%s", want, verbose)
		}
	}
	if got := h.patch(review); !strings.Contains(got, `"two"`) {
		t.Errorf("patch is %s, want that of the last good version", got)
	}
	if got := h.metrics(); !strings.Contains(got, "usher_policy_problems") {
		t.Errorf("metrics do not tell the problems:\n%s", got)
	}
	if got := h.log.String(); !strings.Contains(got, "policy problem") || !strings.Contains(got, "label.yaml") ||
		!strings.Contains(got, "spec.overrideRules[0].overriders.cue") {
		t.Errorf("the log does not tell the problem:\n%s", got)
	}

	write(t, file, label("four"))
	h.eventually("the mended policy is in force", func() bool { return strings.Contains(h.patch(review), `"four"`) })
	h.eventually("the problem is gone", func() bool { return strings.Contains(h.get("/readyz?verbose"), "problems: 0\n") })

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h.eventually("the deleted policy is gone", func() bool { return h.patch(review) == "" })
	h.stop()
}

func TestServeFinishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	// CUE gives a service three seconds to respond, in which a busy machine may not get here.
	for range 10 {
		if finishesInFlight(t) {
			return
		}
	}
	t.Error("the service never responded in time")
}

// finishesInFlight reports whether the service that the request in flight waits for has responded in time.
func finishesInFlight(t *testing.T) bool {
	t.Helper()
	arrived, release := make(chan struct{}), make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrive()
		<-release
		_, _ = io.WriteString(w, `{"team": "slow"}`)
	}))
	defer slow.Close()
	policies := t.TempDir()
	write(t, filepath.Join(policies, "slow.yaml"), strings.ReplaceAll(slowPolicy, "URL", slow.URL))
	h := start(t, serve.Config{Policies: []string{policies}, Facts: serve.Facts{AllowLocal: true}, Rules: serve.Rules{Timeout: time.Minute}, Listen: serve.Listening{ShutdownGrace: 30 * time.Second}})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })

	type answer struct {
		body  string
		close bool
	}
	answers := make(chan answer, 1)
	go func() {
		body, response := h.post("/mutate", read(t, reviews+"v1-create-pods.json"))
		answers <- answer{body: body, close: response != nil && response.Close}
	}()
	h.eventually("the request has got to the service", func() bool {
		select {
		case <-arrived:
			return true
		case early := <-answers:
			t.Fatalf("answered before the service: %s", early.body)
		default:
		}
		return false
	})
	h.cancel()
	h.eventually("the server is not ready any more", func() bool {
		return h.status("/readyz") == http.StatusServiceUnavailable
	})
	if got := h.get("/readyz"); got != "not ready: shutting down\n" {
		t.Errorf("/readyz says %q", got)
	}
	if h.status("/healthz") != http.StatusOK {
		t.Error("/healthz fails while a request is in flight")
	}
	close(release)
	got := receive(t, answers)
	late := strings.Contains(got.body, slow.URL+": context deadline exceeded")
	if !late && (!strings.Contains(got.body, `"allowed":true`) || !strings.Contains(got.body, `"patch":`)) {
		t.Errorf("the request in flight is answered %s", got.body)
	}
	if !got.close {
		t.Error("the connection of the request in flight is kept")
	}
	h.stop()
	return !late
}

func TestServeIgnoresFailingRulesIfAsked(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		policy  usher.FailurePolicy
		allowed bool
	}{
		{"denied unless asked otherwise", "", false},
		{"ignored", usher.Ignore, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			policies := t.TempDir()
			write(t, filepath.Join(policies, "p.yaml"), strings.Replace(label("x"), "/metadata/annotations", "/metadata/nowhere/x", 1))
			h := start(t, serve.Config{Policies: []string{policies}, Rules: serve.Rules{FailurePolicy: row.policy}})
			h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
			body, _ := h.post("/mutate", read(t, reviews+"v1-create-pods.json"))
			if got := strings.Contains(body, `"allowed":true`); got != row.allowed {
				t.Errorf("allowed is %t, want %t: %s", got, row.allowed, body)
			}
			h.stop()
		})
	}
}

func TestServeAnswersReviewsOfEveryVersion(t *testing.T) {
	t.Parallel()
	h := start(t, serve.Config{Policies: []string{t.TempDir()}})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	files, err := filepath.Glob(reviews + "*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reviews: %v", err)
	}
	for _, file := range files {
		body, response := h.post("/validate", read(t, file))
		if response == nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: answered %v: %s", file, response, body)
			continue
		}
		version := "admission.k8s.io/v1\""
		if strings.HasPrefix(filepath.Base(file), "v1beta1") {
			version = "admission.k8s.io/v1beta1\""
		}
		if !strings.Contains(body, version) {
			t.Errorf("%s: answered in another version: %s", file, body)
		}
	}
	h.stop()
}

func TestServeIntroducesItself(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	h := start(t, serve.Config{Policies: []string{t.TempDir()}, Out: &out})
	h.eventually("it is introduced", func() bool { return strings.Contains(out.String(), "curl ") })
	for _, want := range []string{h.server.URL(), h.server.CAFile(), h.server.MetricsURL()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the introduction has no %s:\n%s", want, out.String())
		}
	}
	ca := h.server.CAFile()
	h.stop()
	if _, err := os.Stat(ca); !os.IsNotExist(err) {
		t.Errorf("the temporary CA bundle is still there: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		config serve.Config
		want   string
	}{
		{"policies that are not there", serve.Config{Policies: []string{"nowhere"}}, "nowhere"},
		{"facts that are not there", serve.Config{Policies: []string{"."}, Facts: serve.Facts{Files: []string{"nowhere"}}}, "load facts: "},
		{"an address that is not ours", serve.Config{Policies: []string{"."}, Listen: serve.Listening{Address: "192.0.2.1"}}, "open webhook port: "},
		{"a metrics address that is none", serve.Config{Policies: []string{"."}, Listen: serve.Listening{MetricsAddress: "nonsense"}}, "open metrics port: "},
		{"a certificate that is not there", serve.Config{Policies: []string{"."}, TLS: serve.TLS{CertFile: "nowhere.crt", KeyFile: "nowhere.key"}}, "nowhere"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			_, err := serve.New(t.Context(), row.config)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error is %v, want %q in it", err, row.want)
			}
		})
	}
}

func BenchmarkMutate(b *testing.B) {
	policies := b.TempDir()
	write(b, filepath.Join(policies, "label.yaml"), label("one"))
	h := start(b, serve.Config{Policies: []string{policies}})
	review := read(b, reviews+"v1-create-pods.json")
	h.eventually("the policy is in force", func() bool { return h.patch(review) != "" })
	for b.Loop() {
		h.post("/mutate", review)
	}
}

const slowPolicy = `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: slow
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  overrideRules:
  - overriders:
      cue: |
        object: _
        processing: {
          output: {team?: string}
          http: {method: "GET", url: "URL"}
        }
        patches: [{op: "add", path: "/metadata/annotations", value: {team: processing.output.team}}]
`
