package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/port"
)

// TestGuideForGo does what docs/sdk.md says: certificates by usher certs, the example
// programs, registration by URL and by Service.
//
// It passes if pods are annotated either way, and if the field errors of a webhook arrive
// as those of an API server do.
func TestGuideForGo(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + freePort(t)
	r := newRig(t, sandbox.Options{Services: []string{"default/annotate=" + address}})
	g := newGuide(t)
	g.start("annotate", address)
	images := "127.0.0.1:" + freePort(t)
	g.start("images", images)

	registration := g.registration("annotate", "127.0.0.1:8443", address)
	if _, err := r.apply(testContext(t), registration); err != nil {
		t.Fatal(err)
	}
	annotated := func(reason string) {
		eventually(t, reason, func() error {
			created, err := r.try(testContext(t), pod(t, "default", "cart"))
			if err == nil && created.GetAnnotations()["example.com/greeting"] != "hello" {
				err = fmt.Errorf("annotations are %v", created.GetAnnotations())
			}
			return err
		})
	}
	annotated("a pod is annotated by a webhook with a URL")

	webhook := registration.Object["webhooks"].([]any)[0].(map[string]any)
	config := webhook["clientConfig"].(map[string]any)
	delete(config, "url")
	// Nothing answers at this path: pods are refused until the other registration counts.
	config["service"] = map[string]any{"namespace": "default", "name": "annotate", "path": "/nowhere", "port": int64(443)}
	if _, err := r.apply(testContext(t), registration); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the registration with the Service counts", func() error {
		if _, err := r.try(testContext(t), pod(t, "default", "cart")); !apierrors.IsInternalError(err) {
			return fmt.Errorf("a pod comes to %w", orNil(err))
		}
		return nil
	})
	config["service"].(map[string]any)["path"] = "/mutate"
	if _, err := r.apply(testContext(t), registration); err != nil {
		t.Fatal(err)
	}
	annotated("a pod is annotated by a webhook with a Service")

	if _, err := r.apply(testContext(t), g.registration("images", "127.0.0.1:8444", images)); err != nil {
		t.Fatal(err)
	}
	two := g.parse(filepath.Join(g.examples, "images", "pod.yaml"))
	eventually(t, "field errors arrive", func() error {
		_, err := r.try(testContext(t), two)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
			return fmt.Errorf("a pod comes to %w", orNil(err))
		}
		var fields []string
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, string(cause.Type)+" "+cause.Field)
		}
		if got, want := strings.Join(fields, ", "), "FieldValueInvalid spec.containers[0].image, FieldValueInvalid spec.containers[1].image"; got != want {
			return fmt.Errorf("causes are %s", got)
		}
		return nil
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// A guide is somebody who follows docs/sdk.md.
type guide struct {
	t *testing.T
	// usher and the example programs, and where the latter's files are.
	usher, programs, examples string
	// dir is where the guide works.
	dir    string
	client *http.Client
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	g := &guide{t: t, dir: t.TempDir(), programs: t.TempDir(), examples: filepath.Join(root, "examples", "sdk")}
	var err error
	if g.usher, err = usherBinary(); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", g.programs, "./examples/sdk/...")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples: %v: %s", err, out)
	}
	g.certs()
	ca, err := os.ReadFile(filepath.Join(g.dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	g.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return g
}

// certs runs usher certs, with further flags.
func (g *guide) certs(flags ...string) {
	g.t.Helper()
	command := exec.Command(g.usher, append([]string{"certs", "--ip", "127.0.0.1", "--dns", "annotate.default.svc", "--out", g.dir}, flags...)...)
	if out, err := command.CombinedOutput(); err != nil {
		g.t.Fatalf("usher certs: %v: %s", err, out)
	}
}

// start starts an example program, which ends with the test, and waits until it is ready.
func (g *guide) start(program, address string) {
	g.t.Helper()
	command := exec.Command(filepath.Join(g.programs, program), "--address", address,
		"--tls-cert-file", filepath.Join(g.dir, "tls.crt"), "--tls-private-key-file", filepath.Join(g.dir, "tls.key"))
	if err := command.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	eventually(g.t, program+" is ready", func() error {
		response, err := g.client.Get("https://" + address + "/readyz")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", response.Status)
		}
		return nil
	})
}

// registration is that of an example, at another address, with the CA in it.
func (g *guide) registration(program, from, to string) *unstructured.Unstructured {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.examples, program, "webhook.yaml"))
	if err != nil {
		g.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		g.t.Fatalf("the registration of %s is not for %s", program, from)
	}
	path := filepath.Join(g.dir, program+".yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		g.t.Fatal(err)
	}
	g.certs("--patch", path)
	return g.parse(path)
}

func (g *guide) parse(path string) *unstructured.Unstructured {
	g.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	return parse(g.t, "%s", text)
}
