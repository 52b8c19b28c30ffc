package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// metric is the value of a metric without labels; -1 if usher does not have it.
func metric(t *testing.T, process *usher.Process, name string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, process.Metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("read metric %s: %v", name, err)
			}
			return value
		}
	}
	return -1
}

// serials are the serial numbers of the certificates that two replicas show to somebody
// who connects.
func serials(t *testing.T, both [2]*usher.Process) [2]string {
	t.Helper()
	var serials [2]string
	for i, process := range both {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}
		connection, err := dialer.DialContext(testContext(t), "tcp", host(t, process.URL))
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := connection.(*tls.Conn); ok {
			serials[i] = c.ConnectionState().PeerCertificates[0].SerialNumber.String()
		}
		_ = connection.Close()
	}
	return serials
}

// rotate removes the serving certificate that replicas share, which makes them issue
// another.
func (r *rig) rotate(t *testing.T) {
	t.Helper()
	patch := []byte(`{"data":{"tls.crt":"","tls.key":""}}`)
	_, err := r.kube.CoreV1().Secrets(usher.Namespace).Patch(context.Background(), "usher-certificate", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("empty the certificate: %v", err)
	}
}
