package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/webhook"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

const policy = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: team}, spec: {
	matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
	mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{hostNetwork: false}}"}}],
	validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: label team is required}]}}`

// An address is a log from which it takes where the server listens.
type address chan string

func (a address) Enabled(context.Context, slog.Level) bool { return true }
func (a address) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a address) WithGroup(string) slog.Handler            { return a }

func (a address) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(at slog.Attr) bool {
		if at.Key == "url" {
			a <- at.Value.String()
		}
		return true
	})
	return nil
}

func TestServe(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	at, ended := make(address, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, folder, webhook.Options{Address: "127.0.0.1:0", Log: slog.New(at)})
	}()
	var url string
	select {
	case url = <-at:
	case err := <-ended:
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the server makes the certificate
	// Until a policy is in force, it is not ready; a new file is noticed.
	if code, text := get(t, client, url+"/readyz"); code != http.StatusServiceUnavailable || text != "not ready: no policies in force" {
		t.Errorf("without policies: %d %s", code, text)
	}
	if err := os.WriteFile(filepath.Join(folder, "team.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for code := 0; code != http.StatusOK; code, _ = get(t, client, url+"/readyz") {
		select {
		case err := <-ended:
			t.Fatalf("the server ends: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if r := review(t, client, url+"/mutate"); !r.Allowed || !strings.Contains(string(r.Patch), "hostNetwork") {
		t.Errorf("mutate: %+v", r)
	}
	if r := review(t, client, url+"/validate"); r.Allowed || !strings.Contains(r.Result.Message, "label team is required") {
		t.Errorf("validate: %+v", r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the server ends with %v", err)
	}
}

func TestServeWithoutFolder(t *testing.T) {
	t.Parallel()
	if err := serve(t.Context(), filepath.Join(t.TempDir(), "missing"), webhook.Options{Address: "127.0.0.1:0"}); err == nil {
		t.Error("it serves a folder that does not exist")
	}
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func review(t *testing.T, client *http.Client, url string) *admissionv1.AdmissionResponse {
	t.Helper()
	const request = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "name": "cart", "namespace": "shop",
		"kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"},
		"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "shop"}, "spec": {}}}}`
	response, err := client.Post(url, "application/json", bytes.NewReader([]byte(request)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Response
}
