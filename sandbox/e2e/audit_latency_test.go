package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"testing"
	"time"

	generator "github.com/usher-dev/usher/internal/load"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

var admitting = flag.Float64("admitting", 0, "requests to admit a second while TestAuditOfManyPods audits; 0 leaves that out")

// admittingFor is how long admission without an audit, and after one, is measured.
const admittingFor = 20 * time.Second

// admission measures how long admission of a pod takes without an audit, while all pods are read and
// judged for the first time, and when the audit only follows changes.
func (r *auditRig) admission(t *testing.T, namespace string) {
	t.Helper()
	if *admitting == 0 {
		return
	}
	object, err := r.kube.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name("pod-00001").DoRaw(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "5d0a0f5e-0c55-4d0a-8f3e-3a9d3f2f4a11",
		"kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": %q, "name": "pod-00001",
		"operation": "CREATE", "userInfo": {"username": "jane", "groups": ["system:authenticated"]}, "object": %s, "oldObject": null, "dryRun": false}}`, namespace, object)
	for _, row := range []struct {
		identity string
		args     []string
	}{{"quiet", nil}, {"busy", []string{"--audit"}}} {
		process := r.launch(t, r.kubeconfig, append(row.args, "--manage-webhook-configurations=false", "--identity="+row.identity)...)
		if err := process.WaitReady(testContext(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "policies in force", func() error {
			if n := metric(t, process, "usher_snapshot_rules"); n < manyRules {
				return fmt.Errorf("%v rules", n)
			}
			return nil
		})
		sent := connected(t, process, body, *admitting)
		switch row.identity {
		case "quiet":
			// The first requests are slower.
			sent.run(t.Context(), time.Second)
			sent.log(t, "without an audit", sent.run(t.Context(), admittingFor))
		default:
			ctx, audited := context.WithCancel(t.Context())
			go func() {
				defer audited()
				r.watchBacklog(t, process)
			}()
			sent.log(t, "while all pods are audited", sent.run(ctx, 10*time.Minute))
			sent.log(t, "when all are audited", sent.run(t.Context(), admittingFor))
		}
		sent.Close()
		process.Stop()
	}
}

// watchBacklog returns when all pods are judged. It asks seldom: metrics take time, too.
func (r *auditRig) watchBacklog(t *testing.T, process *usher.Process) {
	t.Helper()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if t.Context().Err() != nil || int(metric(t, process, `usher_audit_objects{resource="pods.v1"}`)) == *audited && metric(t, process, `usher_audit_backlog{resource="pods.v1"}`) == 0 {
			return
		}
	}
}

// An admissions sends requests to admit, so many a second.
type admissions struct {
	*generator.Generator
	rate float64
}

// connected returns what sends a body to a replica.
func connected(t *testing.T, process *usher.Process, body []byte, rate float64) admissions {
	t.Helper()
	ca, err := process.CA()
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	g, err := generator.Connect(t.Context(), generator.Options{
		Requests: []generator.Request{{URL: process.URL + "/validate?timeout=10s", Body: body}}, Connections: 8,
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted},
	})
	if err != nil {
		t.Fatal(err)
	}
	return admissions{g, rate}
}

func (a admissions) run(ctx context.Context, lasts time.Duration) *generator.Measurement {
	return a.Run(ctx, generator.Pace{Rate: a.rate, Duration: lasts})
}

func (a admissions) log(t *testing.T, what string, r *generator.Measurement) {
	t.Helper()
	if r.Answered == 0 || r.Failed() > 1 {
		t.Errorf("%s: %d requests are answered, errors: %v", what, r.Answered, r.Samples)
		return
	}
	t.Logf("admission %s: p50 %v, p99 %v, p99.9 %v of %d requests (%.0f a second, %d more were due); %v", what,
		r.Latency.Quantile(0.5).Round(time.Microsecond), r.Latency.Quantile(0.99).Round(time.Microsecond), r.Latency.Quantile(0.999).Round(time.Microsecond), r.Answered, r.Rate(), r.Unsent, r.Verdicts)
}
