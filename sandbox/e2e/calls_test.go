package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/pki"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// admissionConfig has usher write what API servers need, to a folder.
func admissionConfig(t *testing.T, dir string, args ...string) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(testContext(t), binary, append([]string{"admission", "config", "--out", dir}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("write AdmissionConfiguration: %v: %s", err, out)
	}
}

// TestAPIServersProveWhoTheyAre has an usher that answers only callers, and API servers that
// show nothing, and then a certificate or a token: to a Service, a host, and everybody.
func TestAPIServersProveWhoTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificates, err := pki.Ensure(filepath.Join(dir, "clients"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certificates.Client("kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"client.crt": pair.Cert, "client.key": pair.Key, "client-ca.crt": certificates.CA(), "token": []byte("second\n"), "tokens": []byte("first\nsecond\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate := []string{"--client-cert-file=client.crt", "--client-key-file=client.key"}
	token := []string{"--token-file=token"}
	asksForCertificate := []string{"--client-ca-file=" + filepath.Join(dir, "client-ca.crt"), "--client-names=kube-apiserver"}
	asksForToken := []string{"--token-file=" + filepath.Join(dir, "tokens")}

	// Some other webhook is shown a certificate.
	admissionConfig(t, dir, append(certificate, "--server=other.example")...)
	behind := newNetwork(t)
	r := newRig(t, sandbox.Options{
		Exclusive: true, AdmissionConfig: filepath.Join(dir, "admission.yaml"), Services: []string{usher.Namespace + "/usher=" + behind.address()},
	})
	process := r.launchService(t, append(asksForCertificate, asksForToken...)...)
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	behind.lead(host(t, process.URL))
	namespace := r.Namespace(t)
	policy, err := r.apply(testContext(t), labelling(t, namespace, namespace, "proven"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(policy) })
	current := r.awaitCondition(t, policy, "Enforced", "False")
	if reason, message := condition(current, "Enforced"); reason != "NotCalled" || !strings.Contains(message, "usher admission config") {
		t.Errorf("Enforced is False: %s: %s", reason, message)
	}
	if text := verbose(process); !strings.Contains(text, "calls of API servers: NONE since ") {
		t.Errorf("/readyz?verbose:\n%s", text)
	}
	for name, atLeast := range map[string]float64{
		`usher_refused_callers_total{door="admission",reason="no_certificate"}`: 1,
		`usher_probes_total{result="not_called"}`:                               2,
		`usher_probe_success`: 0,
	} {
		if got := metric(t, process, name); got < atLeast || name == "usher_probe_success" && got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	if err := r.acts(t, namespace, ""); err != nil {
		t.Errorf("the webhook was called: %v", err)
	}
	process.Kill()

	byService := func(args []string) *usher.Process {
		process := r.launchService(t, args...)
		behind.lead(host(t, process.URL))
		return process
	}
	byURL := func(args []string) *usher.Process { return r.launch(t, r.Kubeconfig, args...) }
	for _, row := range []struct {
		reason string
		asks   []string
		start  func([]string) *usher.Process
		shown  []string
		server string
	}{
		{"a certificate and a token, to a Service", append(asksForCertificate, asksForToken...), byService, append(certificate, token...), "usher.usher-system.svc"},
		{"a token, to a host", asksForToken, byURL, token, "HOST"},
		{"a certificate, to everybody", asksForCertificate, byURL, certificate, "*"},
	} {
		process := row.start(row.asks)
		server := strings.Replace(row.server, "HOST", process.URL, 1)
		admissionConfig(t, dir, append(row.shown, "--server="+server)...)
		r.Restart(t)
		if err := errors.Join(process.WaitReady(testContext(t))); err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		eventually(t, row.reason+": the policy to act", func() error { return r.acts(t, namespace, "proven") })
		r.awaitCondition(t, policy, "Enforced", "True")
		eventually(t, row.reason+": /readyz to say so", func() error {
			if text := verbose(process); !strings.Contains(text, "calls of API servers: verified since ") {
				return errors.New(text)
			}
			return nil
		})
		callAnonymously(t, process)
		process.Kill()
	}
}

// callAnonymously calls a webhook without showing anything.
func callAnonymously(t *testing.T, process *usher.Process) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodPost, process.URL+"/validate", bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("an unknown caller gets %s", response.Status)
	}
}

// verbose is /readyz?verbose, or why there is none.
func verbose(process *usher.Process) string {
	text, err := readyz(process)
	if err != nil {
		return err.Error()
	}
	return text
}

func condition(object *unstructured.Unstructured, kind string) (reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "", ""
}

// TestEnforcedRestsOnCalls breaks what lies between API servers and usher, piece by piece.
func TestEnforcedRestsOnCalls(t *testing.T) {
	t.Parallel()
	behind := newNetwork(t)
	r := newRig(t, sandbox.Options{Exclusive: true, Services: []string{usher.Namespace + "/usher=" + behind.address()}})
	dir := t.TempDir()
	certificates, err := pki.Ensure(filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	others, err := pki.Ensure(filepath.Join(dir, "others"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certificates.Server("usher.usher-system.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	write := func(path string, content []byte) {
		t.Helper()
		// Whole, as a kubelet does: usher may be reading.
		if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "tls.crt"), pair.Cert)
	write(filepath.Join(dir, "tls.key"), pair.Key)
	write(ca, certificates.CA())
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	process := r.run(t, usher.Config{Binary: binary, Kubeconfig: r.Kubeconfig, Service: "usher", Args: []string{
		"--cert-secret=", "--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(dir, "tls.key"), "--tls-ca-file=" + ca,
	}})
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	behind.lead(host(t, process.URL))
	namespace := r.Namespace(t)
	policy := r.enforce(t, labelling(t, namespace, namespace, "called"))
	denied := func() float64 {
		return metric(t, process, `usher_decisions_total{door="admission",phase="validate",verdict="deny"}`)
	}
	if n := denied(); n > 0 {
		t.Errorf("%v probes are counted as denials", n)
	}

	notCalled := func(what string) {
		t.Helper()
		current := r.awaitCondition(t, policy, "Enforced", "False")
		if reason, message := condition(current, "Enforced"); reason != "NotCalled" {
			t.Errorf("%s: %s: %s", what, reason, message)
		}
	}
	behind.sever()
	notCalled("the network is cut")
	behind.mend()
	r.awaitCondition(t, policy, "Enforced", "True")

	// Connections that are open go on to where they were made.
	reroute := func(target string) {
		behind.sever()
		behind.lead(target)
		behind.mend()
	}
	reroute(newNetwork(t).address())
	notCalled("the Service leads elsewhere")
	reroute(host(t, process.URL))
	r.awaitCondition(t, policy, "Enforced", "True")

	write(ca, others.CA())
	notCalled("the CA bundle is that of somebody else")
	write(ca, certificates.CA())
	r.awaitCondition(t, policy, "Enforced", "True")

	// Somebody deletes the registration: it is back soon, and nothing was ever in doubt for long.
	hooks := r.kube.AdmissionregistrationV1()
	if err := errors.Join(
		hooks.MutatingWebhookConfigurations().Delete(context.Background(), "usher", metav1.DeleteOptions{}),
		hooks.ValidatingWebhookConfigurations().Delete(context.Background(), "usher", metav1.DeleteOptions{}),
	); err != nil {
		t.Fatal(err)
	}
	took := r.acting(t, namespace, "called")
	t.Logf("a deleted registration is back after %v", took)
	r.awaitCondition(t, policy, "Enforced", "True")
}

// TestWhatIsNotKnownIsSaid: an usher without the rights of this version, and one that somebody
// else registers, or nobody.
func TestWhatIsNotKnownIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.launch(t, r.Kubeconfig, "--manage-webhook-configurations=false")
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	namespace := r.Namespace(t)
	policy, err := r.apply(testContext(t), labelling(t, namespace, namespace, "unknown"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(policy) })
	current := r.awaitCondition(t, policy, "Enforced", "Unknown")
	if reason, message := condition(current, "Enforced"); reason != "NotVerified" || !strings.Contains(message, "registered by somebody else") {
		t.Errorf("Enforced is Unknown: %s: %s", reason, message)
	}
	if text := verbose(process); !strings.Contains(text, "calls of API servers: cannot be verified") {
		t.Errorf("/readyz?verbose:\n%s", text)
	}
}

// TestLeaderKilled: the successor of a leader that was killed reports.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	r, behind, both, namespace := replicas(t)
	leader := func() string {
		lease, err := r.kube.CoordinationV1().Leases(usher.Namespace).Get(testContext(t), "usher-leader", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	before := leader()
	killed := -1
	for i, process := range both {
		if strings.HasSuffix(before, fmt.Sprintf("-%d", process.PID)) {
			killed = i
		}
	}
	if killed < 0 {
		t.Fatalf("the leader is %q, and neither %d nor %d", before, both[0].PID, both[1].PID)
	}
	both[killed].Kill()
	began := time.Now()
	behind.lead(host(t, both[1-killed].URL))
	policy, err := r.apply(testContext(t), labelling(t, namespace, namespace, "reported"))
	if err != nil {
		t.Fatal(err)
	}
	r.awaitCondition(t, policy, "Enforced", "True")
	t.Logf("a policy that was written after the leader was killed counts as enforced after %v", time.Since(began))
	if now := leader(); now == before {
		t.Errorf("the leader is still %s", now)
	}
}
