// Package doors tests the doors that need no webhook, the plugin in an API server and the
// transport in a client, with the clients that people use and a real API server.
package doors

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/source/dir"
)

const (
	deadline = 60 * time.Second
	policies = "testdata/policies"
	// calm are controllers that leave workloads alone.
	calm = "serviceaccount-controller,namespace-controller,clusterrole-aggregation-controller"
)

func TestMain(m *testing.M) {
	live.Main()
	// The tests wait for most of their time. The flag on the command line still counts.
	_ = flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// A rig is a client of an API server, with the policies somewhere between them.
type rig struct {
	*sandbox.Cluster

	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// warnings are what the server and the transport said.
	warnings *warnings
}

// rigs are the ways in which the same policies can be enforced.
func rigs(t *testing.T) map[string]func(t *testing.T) *rig {
	t.Helper()
	folder, err := filepath.Abs(policies)
	if err != nil {
		t.Fatal(err)
	}
	plain := sandbox.Options{Controllers: calm}
	plugin := sandbox.Options{Controllers: calm, Plugin: &sandbox.Plugin{Policies: []string{folder}}}
	return map[string]func(t *testing.T) *rig{
		"plugin":    func(t *testing.T) *rig { return newRig(t, plugin, nil).awaitPolicies(t) },
		"transport": func(t *testing.T) *rig { return newRig(t, plain, current(t)).awaitPolicies(t) },
		// What both do is done once.
		"both": func(t *testing.T) *rig {
			newRig(t, plugin, nil).awaitPolicies(t)
			return newRig(t, plugin, current(t)).awaitPolicies(t)
		},
	}
}

// newRig makes clients that ask l, which may be nil.
func newRig(t *testing.T, o sandbox.Options, l *live.Live) *rig {
	t.Helper()
	r := &rig{Cluster: sandbox.Start(t, o), warnings: &warnings{}}
	r.config = rest.CopyConfig(r.RESTConfig)
	r.config.WarningHandler = r.warnings
	var err error
	if l != nil {
		if r.config, err = transport.Wrap(r.config, l, transport.Options{Covers: l.Covers}); err != nil {
			t.Fatal(err)
		}
	}
	if r.kube, err = kubernetes.NewForConfig(r.config); err != nil {
		t.Fatal(err)
	}
	if r.dynamic, err = dynamic.NewForConfig(r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

// awaitPolicies waits until policies decide: those in CUE are compiled after the server has started,
// and fail until then. What needs CUE's evaluator, as objects without data do, waits for a process
// that starts with the first such request, for longer than a rule may take if the machine is busy.
func (r *rig) awaitPolicies(t *testing.T) *rig {
	t.Helper()
	namespace := r.Namespace(t)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	eventually(t, "policies of the plugin", func() bool {
		_, err := r.kube.CoreV1().ConfigMaps(namespace).Create(testContext(t), configMap("awaited", "password"), dry)
		return err != nil && strings.Contains(err.Error(), noPasswords)
	})
	eventually(t, "the evaluator", func() bool {
		empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "awaited"}}
		_, err := r.kube.CoreV1().ConfigMaps(namespace).Create(testContext(t), empty, dry)
		return err == nil
	})
	return r
}

// current has the policies of the folder in force until the test ends.
func current(t *testing.T) *live.Live {
	t.Helper()
	l := live.New(live.Options{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx, dir.New(policies)); err != nil {
			t.Errorf("follow policies: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	eventually(t, "policies in force", func() bool { return len(l.Policies()) > 0 })
	return l
}

// each runs a test with every way to enforce the policies.
func each(t *testing.T, run func(t *testing.T, r *rig)) {
	t.Helper()
	for name, open := range rigs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, deadline)
		}
	}
}

var byPolicy = regexp.MustCompile(` \(\w+Policy [^ )]+\)$`)

// wantDenied checks that err is a denial, as an API server gives it, with a sentence and the
// policy behind it.
func wantDenied(t *testing.T, what string, err error, sentence string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Errorf("%s: error is %v, want a denial", what, err)
		return
	}
	s := status.Status()
	_, said, found := strings.Cut(s.Message, " denied the request: ")
	if !found || !byPolicy.MatchString(said) || byPolicy.ReplaceAllString(said, "") != sentence || s.Code != 400 || s.Details == nil || len(s.Details.Causes) == 0 {
		t.Errorf("%s: denied with %d %q, details %v; want 400 %q and the policy, and a cause", what, s.Code, s.Message, s.Details, sentence)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}
