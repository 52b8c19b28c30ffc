package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
)

// TestFindIsNotThrottled: with the limit of client-go, 5 requests per second, commands wait, and print that.
func TestFindIsNotThrottled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := cluster.Find(file, "")
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS < 50 || config.Burst < 100 {
		t.Errorf("%v requests per second, %d at once", config.QPS, config.Burst)
	}
}

// TestTransportsAreUnwrapped: client-go looks below a transport for its TLS configuration, and prints a warning if it
// cannot.
func TestTransportsAreUnwrapped(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := cluster.Find(file, "")
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := net.TLSClientConfig(transport); err != nil || found == nil || !found.InsecureSkipVerify {
		t.Errorf("%v, %v", found, err)
	}
}
