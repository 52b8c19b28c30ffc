package transport_test

import (
	"context"
	"log"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// A client obeys the policies of a folder, which may change while it runs.
func ExampleWrap() {
	policies := live.New(live.Options{})
	go func() { log.Println(policies.Run(context.Background(), dir.New("policies"))) }()

	config, err := clientcmd.BuildConfigFromFlags("", "kubeconfig")
	if err != nil {
		log.Fatal(err)
	}
	config, err = transport.Wrap(config, policies, transport.Options{Covers: policies.Covers})
	if err != nil {
		log.Fatal(err)
	}
	_ = kubernetes.NewForConfigOrDie(config)
}
