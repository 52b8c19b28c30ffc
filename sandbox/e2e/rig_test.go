// Package e2e tests Usher as a cluster sees it: a real API server calls real processes.
// Nothing here knows how Usher works inside; everything goes through the API server, or
// through the pages that a process serves.
//
// Most tests share one control plane and one usher, which costs them nothing:
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		r := sharedRig(t)
//		namespace := r.Namespace(t)
//		r.enforce(t, labelling(t, namespace, namespace, "value"))
//		r.acting(t, namespace, "value")
//	}
//
// Such a test keeps to a namespace of its own: its policies are named after it and select
// nothing else, and nothing that is shared is stopped, restarted or reconfigured. rig.enforce,
// rig.create and rig.apply with rig.remove write; rig.try sends a dry run; rig.process is the
// usher, for its metrics.
//
// A test that needs flags of usher or of the API server, or takes something down, starts a
// control plane of its own with newRig(t, sandbox.Options{Exclusive: true}) and an usher with
// rig.serve: about four seconds of CPU. Tests run six at a time, so none may count on being
// fast.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

const (
	root     = "../.."
	deadline = 60 * time.Second
	// longest is how long a context lasts: a test has one for several steps, each of which may take until the
	// deadline on a slow machine.
	longest = 5 * deadline
	// pollEvery is short: several tests measure how long something takes.
	pollEvery = 20 * time.Millisecond
)

// calm are controllers that leave workloads alone: what tests write stays as it is.
const calm = "serviceaccount-controller,namespace-controller,clusterrole-aggregation-controller"

// usherBinary is $USHER_BIN, or built from the source beside this module.
var usherBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("USHER_BIN"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "usher", "e2e", "usher")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/usher")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build usher: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
})

// A rig is a cluster, with clients, and the ushers that serve it.
type rig struct {
	*sandbox.Cluster
	dynamic dynamic.Interface
	kube    kubernetes.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	// process is the usher of a shared rig, or what serve started.
	process *usher.Process
}

// newRig gives the test a cluster that knows Usher's kinds, without an usher.
func newRig(t *testing.T, o sandbox.Options) *rig {
	t.Helper()
	return newRigOf(t, o, root)
}

// newRigOf is a rig with the CRDs of a source tree.
func newRigOf(t *testing.T, o sandbox.Options, source string) *rig {
	t.Helper()
	if o.Controllers == "" {
		o.Controllers = calm
	}
	r := &rig{Cluster: sandbox.Start(t, o)}
	// Warnings are for people.
	r.RESTConfig.WarningHandler = rest.NoWarnings{}
	r.connect(t, r.RESTConfig)
	if err := usher.Install(testContext(t), r.RESTConfig, filepath.Join(source, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) connect(t *testing.T, config *rest.Config) {
	t.Helper()
	var err error
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if r.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
}

// serve starts an usher against the cluster and waits until it is ready and registered.
func (r *rig) serve(t *testing.T, args ...string) *usher.Process {
	t.Helper()
	process := r.launch(t, r.Kubeconfig, args...)
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := process.WaitRegistered(testContext(t), r.RESTConfig); err != nil {
		t.Fatal(err)
	}
	r.process = process
	return process
}

// launch starts an usher and does not wait for it.
func (r *rig) launch(t *testing.T, kubeconfig string, args ...string) *usher.Process {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	return r.run(t, usher.Config{
		Binary:     binary,
		Kubeconfig: kubeconfig,
		Args:       append([]string{"--allow-local-facts", "--fact-ttl=0"}, args...),
	})
}

// run starts an usher that ends with the test.
func (r *rig) run(t *testing.T, config usher.Config) *usher.Process {
	t.Helper()
	config.Dir = t.TempDir()
	process, err := usher.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			showEnd(t, process.Log)
		}
	})
	return process
}

// shared is what most tests use: one cluster with one usher. Tests keep out of each
// other's way by namespaces of their own, which their policies name.
var shared = struct {
	sync.Mutex
	process *usher.Process
}{}

// sharedRig is a rig whose usher lives as long as the test process.
func sharedRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, sandbox.Options{})
	shared.Lock()
	defer shared.Unlock()
	t.Cleanup(func() {
		if t.Failed() && r.process != nil {
			showEnd(t, r.process.Log)
		}
	})
	if shared.process != nil {
		r.process = shared.process
		return r
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "usher-e2e") //nolint:usetesting // Other tests use it, too.
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	process, err := usher.Start(usher.Config{
		Binary: binary, Kubeconfig: r.Kubeconfig, Dir: dir, Args: []string{"--allow-local-facts", "--fact-ttl=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(process.WaitReady(testContext(t)), process.WaitRegistered(testContext(t), r.RESTConfig)); err != nil {
		process.Kill()
		showEnd(t, process.Log)
		t.Fatal(err)
	}
	t.Logf("usher is ready and registered after %v", time.Since(began))
	shared.process, r.process = process, process
	return r
}

func TestMain(m *testing.M) {
	// The tests wait for most of their time. The flag on the command line still counts.
	_ = flag.Set("test.parallel", "8")
	code := m.Run()
	if shared.process != nil {
		shared.process.Stop()
		if code == 0 {
			_ = os.RemoveAll(filepath.Dir(shared.process.Log))
		} else {
			fmt.Fprintln(os.Stderr, "the log of the shared usher is", shared.process.Log)
		}
	}
	os.Exit(code)
}

// testContext is a context for several steps of a test, which ends with the test.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	t.Cleanup(cancel)
	return ctx
}

// eventually calls check until it returns nil, and fails the test at the deadline. It
// returns how long that took.
func eventually(t *testing.T, what string, check func() error) time.Duration {
	t.Helper()
	return within(t, deadline, what, check)
}

func within(t *testing.T, limit time.Duration, what string, check func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(pollEvery)
	}
}

// showEnd logs the last lines of a log file.
func showEnd(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Logf("log of usher: %v", err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	t.Logf("end of usher's log:\n%s", strings.Join(lines[max(0, len(lines)-30):], "\n"))
}
