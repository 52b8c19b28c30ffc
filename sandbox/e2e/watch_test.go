package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// TestWatch: users see the decisions of two replicas, as far as RBAC lets them, and nobody waits for
// them: see the target bench-watch.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	address := "127.0.0.1:" + freePort(t)
	second := r.launch(t, r.kubeconfigOf(t, usher.Namespace, "usher"), "--manage-webhook-configurations=false", "--api-address", address)
	if err := second.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	namespace, another := r.Namespace(t), r.Namespace(t)
	token := filepath.Join(t.TempDir(), "token")
	eventually(t, "there is a ServiceAccount", func() error {
		_, err := r.kube.CoreV1().ServiceAccounts(namespace).Get(testContext(t), "default", metav1.GetOptions{})
		return err
	})
	if err := os.WriteFile(token, []byte(r.token(t, namespace, "default", "usher.dev")), 0o600); err != nil {
		t.Fatal(err)
	}
	r.bind(t, namespace, "default", "edit")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	joined := append(readFile(t, r.process.CAFile()), readFile(t, second.CAFile())...)
	if err := os.WriteFile(ca, joined, 0o600); err != nil {
		t.Fatal(err)
	}
	watch := func(args ...string) (string, error) {
		args = append([]string{"watch", "--server", strings.TrimSuffix(r.url, "/usher/v1/"), "--server", "https://" + address, "--ca-file", ca}, args...)
		out, err := exec.CommandContext(testContext(t), binary, args...).CombinedOutput()
		return string(out), err
	}
	eventually(t, "the right is known", func() error {
		_, err := watch("--token-file", token, "-n", namespace, "--once")
		return err
	})
	if out, err := watch("--token-file", token, "--once"); err == nil || !strings.Contains(out, "name a namespace with -n") {
		t.Errorf("all namespaces: %v: %s", err, out)
	}
	if out, err := watch("--token-file", token, "-n", another, "--once"); err == nil || !strings.Contains(out, "cannot list resource") {
		t.Errorf("another namespace: %v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(testContext(t), time.Minute)
	defer cancel()
	// The certificate of the kubeconfig; the first decision ends it.
	command := exec.CommandContext(ctx, "sh", "-c", `"$0" watch "$@" | head -n 1`, binary,
		"--server", strings.TrimSuffix(r.url, "/usher/v1/"), "--server", "https://"+address, "--ca-file", ca, "--kubeconfig", r.Kubeconfig, "--explain")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		r.review(t, second, namespace)
		select {
		case err := <-ended:
			if err != nil || !strings.Contains(out.String(), " "+namespace+"/x ") {
				t.Errorf("%v: %s", err, out.String())
			}
			if text, err := watch("--token-file", token, "-n", namespace, "--once"); err != nil || !strings.Contains(text, namespace+"/x") {
				t.Errorf("in the namespace: %v: %s", err, text)
			}
			r.followed(t, namespace)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readFile returns what is in a file.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// review has a replica decide about a ConfigMap.
func (r *apiRig) review(t *testing.T, process *usher.Process, namespace string) {
	t.Helper()
	client, err := process.Client()
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(forged, "configmaps", "ConfigMap", namespace)
	response, err := client.Post(process.URL+"/validate", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
}
