package transport_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// A client obeys the policies of a folder, which may change while it runs: what they deny is not sent.
func ExampleWrap() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// An API server that knows who the client is, and nothing else.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": {"userInfo": {"username": "jane"}}}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}

	client, err := obedient(ctx, config, "testdata/policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "cart"}}
	_, err = client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
	fmt.Println(err)
	// Output:
	// admission webhook "validate.usher.dev" denied the request: label owner is required (ClusterObjectPolicy require-owner)
}

// obedient returns a client that obeys the policies in a folder.
func obedient(ctx context.Context, config *rest.Config, folder string) (kubernetes.Interface, error) {
	policies := live.New(live.Options{})
	go func() { _ = policies.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	if err := policies.WaitLoaded(ctx); err != nil {
		return nil, err
	}
	config, err := transport.Wrap(config, policies, transport.Options{Covers: policies.Covers})
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config) // or dynamic, or controller-runtime
}
