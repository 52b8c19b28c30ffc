package webhook_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/door/conversion"
	"github.com/usher-dev/usher/internal/attack"
	"github.com/usher-dev/usher/webhook"
)

// Attackers at a conversion webhook keep nobody from having objects converted: without that an
// API server cannot even list them.
func TestAttackersKeepNobodyFromBeingConverted(t *testing.T) {
	t.Parallel()
	const attacker, review = "127.0.0.2", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1",` +
		`"desiredAPIVersion":"example.com/v2","objects":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}]}}`
	if l, err := net.Listen("tcp", attacker+":0"); err != nil {
		t.Skipf("this machine has no address %s: %v", attacker, err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	convert := conversion.ConverterFunc(func(_ context.Context, o *unstructured.Unstructured, to string) error {
		o.SetAPIVersion(to)
		return nil
	})
	r := start(t, conversion.Handler(convert, conversion.Options{}), webhook.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	there := make(chan struct{})
	var attackers sync.WaitGroup
	attackers.Go(func() {
		attack.RunAll(ctx, func() *attack.Target {
			return &attack.Target{
				Address: strings.TrimPrefix(r.URL(), "https://"), TLS: r.client.Transport.(*http.Transport).TLSClientConfig, From: attacker, Path: "/convert",
			}
		}, func() { close(there) })
	})
	<-there
	for i := range 20 {
		if i%5 == 0 {
			r.client.CloseIdleConnections()
		}
		response, err := r.client.Post(r.URL()+"/convert", "application/json", strings.NewReader(review))
		if err != nil {
			t.Errorf("an honest caller is not answered: %v", err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"apiVersion":"example.com/v2"`) {
			t.Errorf("an honest caller is answered with status %d: %v: %s", response.StatusCode, err, body)
		}
	}
	cancel()
	attackers.Wait()
}
