// Package node is what a sandbox lacks to run the suite: something that runs pods, and a
// network in which services are found. Pods of known images run as processes of this
// machine, with the arguments and Secrets that their manifests give them; of all others
// only the status is written. There is no Node object, and nothing listens beyond what the
// processes do.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Options say what a node runs.
type Options struct {
	Client kubernetes.Interface
	// Programs run in the place of images, by the name of the image without registry and
	// tag.
	Programs map[string]Program
	// Volumes is an existing folder for what pods mount.
	Volumes string
	// Logs is an existing folder for what programs print: one file a namespace.
	Logs string
}

// A Program is a command to which a container's arguments are given.
type Program struct {
	Command []string
	// Args come after the container's.
	Args []string
}

// A Node runs the pods of a cluster. It is safe for concurrent use.
type Node struct {
	options  Options
	objects  informers.SharedInformerFactory
	services listers.ServiceLister
	running  sync.WaitGroup

	mu     sync.Mutex
	pods   map[types.UID]*pod
	lastIP netip.Addr
}

// New is a node on which nothing runs yet.
func New(o Options) *Node {
	// Pods have addresses of a private range. Nobody connects to them: services lead to the
	// processes themselves.
	n := &Node{options: o, pods: map[types.UID]*pod{}, lastIP: netip.MustParseAddr("10.244.0.0")}
	n.objects = informers.NewSharedInformerFactory(o.Client, 0)
	n.services = n.objects.Core().V1().Services().Lister()
	return n
}

// Run runs the cluster's pods until ctx is done, and returns when the last process has
// ended. It does not wait for that if a program cannot be started or ends by itself, nor if
// the API server cannot be told about pods: this is its error.
func (n *Node) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	_, err := n.objects.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if service, ok := object.(*corev1.Service); ok {
				check(fail, n.publishService(ctx, service))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	_, err = n.objects.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if created, ok := object.(*corev1.Pod); ok {
				n.start(ctx, fail, created)
			}
		},
		// Pods that are on no node are removed as soon as somebody deletes them.
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if deleted, ok := object.(*corev1.Pod); ok {
				n.stop(deleted.UID)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	n.objects.Start(ctx.Done())
	<-ctx.Done()
	n.objects.Shutdown()
	n.running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return cause
	}
	return nil
}

// check ends a node for an error, unless it is that something was stopped.
func check(fail context.CancelCauseFunc, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		fail(err)
	}
}

func (n *Node) start(ctx context.Context, fail context.CancelCauseFunc, created *corev1.Pod) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pod{manifest: created, stop: cancel, ports: map[int32]int{}}
	n.mu.Lock()
	n.lastIP = n.lastIP.Next()
	p.ip = n.lastIP.String()
	n.pods[created.UID] = p
	n.mu.Unlock()
	n.running.Go(func() {
		defer cancel()
		if err := n.run(ctx, p); err != nil {
			check(fail, fmt.Errorf("run pod %s/%s: %w", created.Namespace, created.Name, err))
		}
	})
}

func (n *Node) stop(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil {
		p.stop()
		delete(n.pods, uid)
	}
}
