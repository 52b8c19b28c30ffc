package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// guessable is the last commit at which the webhooks were registered at /mutate and /validate.
const guessable = "7381fb8"

// errNoOldVersion is a reason to skip.
var errNoOldVersion = errors.New("an old commit is not here, as in a shallow clone")

// binaryAt is usher as of a commit.
func binaryAt(commit string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "usher", "e2e", "usher-"+commit)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		return "", fmt.Errorf("commit %s: %w", commit, errNoOldVersion)
	}
	source, err := os.MkdirTemp("", "usher-"+commit)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(source) }()
	if err := unpack(commit, source); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-pgo=off", "-o", path, "./cmd/usher")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build usher at %s: %w: %s", commit, err, out)
	}
	return path, nil
}

// unpack writes the files of a commit into a folder.
func unpack(commit, to string) error {
	if out, err := exec.Command("sh", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, root, commit, to).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack commit %s: %w: %s", commit, err, out)
	}
	return nil
}

// registeredPaths are the URL paths that API servers are told now, by entry.
func (r *rig) registeredPaths(t *testing.T) map[string]string {
	t.Helper()
	client, registered := r.kube.AdmissionregistrationV1(), map[string]string{}
	mutating, err := client.MutatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for i := range mutating.Webhooks {
		registered[mutating.Webhooks[i].Name] = *mutating.Webhooks[i].ClientConfig.Service.Path
	}
	validating, err := client.ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for i := range validating.Webhooks {
		registered[validating.Webhooks[i].Name] = *validating.Webhooks[i].ClientConfig.Service.Path
	}
	return registered
}

var secretPath = regexp.MustCompile(`^/(mutate|validate)/[0-9a-f]{64}$`)

// awaitPaths waits until all registered paths are as they should be, and none is one of those
// before. It returns them.
func (r *rig) awaitPaths(t *testing.T, what string, fits func(path string) bool, before map[string]string) map[string]string {
	t.Helper()
	var registered map[string]string
	took := eventually(t, what, func() error {
		registered = r.registeredPaths(t)
		for entry, path := range registered {
			if !fits(path) {
				return fmt.Errorf("entry %s is registered at %s", entry, path)
			}
			for _, old := range before {
				if path == old {
					return fmt.Errorf("entry %s is where an entry was before", entry)
				}
			}
		}
		if len(registered) < 2 {
			return fmt.Errorf("%d entries are registered", len(registered))
		}
		return nil
	})
	t.Logf("%s: after %v", what, took.Round(time.Millisecond))
	return registered
}

// A siege is somebody who writes what a policy forbids, all the time.
type siege struct {
	stop     chan struct{}
	done     sync.WaitGroup
	attempts atomic.Int64
	admitted atomic.Int64
}

// besiege begins one. Every attempt has to fail, for whatever reason.
func (r *rig) besiege(t *testing.T, namespace string, pause time.Duration) *siege {
	t.Helper()
	s := &siege{stop: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	for client := range 3 {
		s.done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-s.stop:
					return
				case <-time.After(pause):
				}
				object := configMap(t, namespace, fmt.Sprintf("forbidden-%d-%d", client, i))
				object.SetLabels(map[string]string{"app": "forbidden"})
				if _, err := r.try(ctx, object); err == nil {
					s.admitted.Add(1)
				}
				s.attempts.Add(1)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		s.end()
	})
	return s
}

func (s *siege) end() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.done.Wait()
}

// forbidding is a policy that refuses ConfigMaps with a label in a namespace.
const forbidding = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: forbidding-%[1]s}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, namespace: %[1]q, labelSelector: {matchLabels: {app: forbidden}}}
  validateRules:
  - targetOperations: [CREATE, UPDATE]
    cue: |
      validate: {valid: false, reason: "not here"}
`

// A rollout is two replicas behind a Service that are replaced one after the other, as a
// Deployment does that may have one more and none less.
type rollout struct {
	*rig
	behind  *network
	running []*usher.Process
	// kubeconfig and args are those of replicas, if not the usual ones.
	kubeconfig string
	args       []string
}

func (o *rollout) lead(t *testing.T) {
	t.Helper()
	var targets []string
	for _, process := range o.running {
		targets = append(targets, host(t, process.URL))
	}
	o.behind.lead(targets...)
}

func (o *rollout) add(t *testing.T, binary string) {
	t.Helper()
	process := o.run(t, usher.Config{
		Binary: binary, Kubeconfig: cmp.Or(o.kubeconfig, o.Kubeconfig), Service: "usher", Args: append([]string{fail}, o.args...),
	})
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	o.running = append(o.running, process)
	o.lead(t)
}

// replace runs another version in place of both replicas.
func (o *rollout) replace(t *testing.T, binary string, l *load) {
	t.Helper()
	o.swap(t, binary, l)
	o.swap(t, binary, l)
}

// swap runs another version in place of one replica.
func (o *rollout) swap(t *testing.T, binary string, l *load) {
	t.Helper()
	o.add(t, binary)
	l.await(t, 50)
	ending := o.running[0]
	o.running = o.running[1:]
	o.lead(t)
	ending.Stop()
	l.await(t, 50)
}

// TestUpgradeRotateAndDowngradeUnderLoad goes from the last version that was registered at
// /mutate and /validate to this one and back, with two replicas. On the way the paths are
// rotated, their Secret is deleted, and somebody posts reviews to the Service. Under failure
// policy Fail no honest write is lost and no forbidden one is admitted at any time.
func TestUpgradeRotateAndDowngradeUnderLoad(t *testing.T) {
	t.Parallel()
	old, err := binaryAt(guessable)
	if errors.Is(err, errNoOldVersion) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	behind := newNetwork(t)
	o := &rollout{behind: behind, rig: newRig(t, sandbox.Options{
		Exclusive: true,
		Services:  []string{usher.Namespace + "/usher=" + behind.address()},
	})}
	o.add(t, old)
	o.add(t, old)
	namespace := o.Namespace(t)
	o.enforce(t, labelling(t, namespace, namespace, "always"))
	o.enforce(t, parse(t, forbidding, namespace))
	o.acting(t, namespace, "always")
	forbidden := configMap(t, namespace, "forbidden")
	forbidden.SetLabels(map[string]string{"app": "forbidden"})
	eventually(t, "the denial", func() error {
		_, err := o.try(testContext(t), forbidden)
		return wantDenied(err, "not here")
	})
	isBare := func(path string) bool { return path == "/mutate" || path == "/validate" }
	o.awaitPaths(t, "before the upgrade", isBare, nil)

	l := o.underLoad(t, namespace, "always", 2*pollEvery)
	s := o.besiege(t, namespace, 3*pollEvery)
	report := func(stage string) {
		t.Helper()
		t.Logf("%s: %d honest writes so far, %d sent again, %d forbidden attempts", stage, l.admitted.Load(), l.retried.Load(), s.attempts.Load())
		if n := s.admitted.Load(); n > 0 {
			t.Fatalf("%s: %d forbidden objects were admitted", stage, n)
		}
		for _, err := range l.problems() {
			t.Errorf("%s: a write was lost: %v", stage, err)
		}
	}
	l.await(t, 100)

	o.replace(t, binary, l)
	first := o.awaitPaths(t, "secret paths after the upgrade", secretPath.MatchString, nil)
	l.await(t, 100)
	report("upgrade")
	if n := l.retried.Load(); n > 0 {
		t.Errorf("%d writes failed during the upgrade and were sent again", n)
	}

	o.rotatePaths(t, binary)
	second := o.awaitPaths(t, "new paths after the rotation", secretPath.MatchString, first)
	l.await(t, 100)
	if err := o.kube.CoreV1().Secrets(usher.Namespace).Delete(testContext(t), "usher-paths", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	third := o.awaitPaths(t, "new paths after the Secret was deleted", secretPath.MatchString, second)
	l.await(t, 100)
	report("rotation")
	if n := l.retried.Load(); n > 0 {
		t.Errorf("%d writes failed during rotations and were sent again", n)
	}
	o.mustNotTell(t, namespace, first, second, third)

	o.replace(t, old, l)
	o.awaitPaths(t, "after the downgrade", isBare, nil)
	l.await(t, 100)
	l.end()
	s.end()
	report("downgrade")
}

// rotatePaths runs the command for it, which says nothing of the paths.
func (r *rig) rotatePaths(t *testing.T, binary string) {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), binary, "admission", "rotate-paths", "--kubeconfig", r.Kubeconfig, "--namespace", usher.Namespace).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "has a new key") {
		t.Fatalf("rotate paths: %v: %s", err, out)
	}
}

// mustNotTell reads what the replicas say to everybody.
func (o *rollout) mustNotTell(t *testing.T, namespace string, generations ...map[string]string) {
	t.Helper()
	var said bytes.Buffer
	for _, process := range o.running {
		log, err := os.ReadFile(process.Log)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(log)
		client, err := process.Client()
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range []string{process.URL + "/readyz?verbose", process.Metrics} {
			response, err := client.Get(page)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&said, response.Body)
			_ = response.Body.Close()
		}
	}
	leases, err := o.kube.CoordinationV1().Leases(usher.Namespace).List(testContext(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := o.kube.CoreV1().Events("").List(testContext(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []any{leases, events} {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(text)
	}
	for _, registered := range generations {
		for entry, path := range registered {
			digits := path[strings.LastIndex(path, "/")+1:]
			if strings.Contains(said.String(), digits[:16]) {
				t.Errorf("the path of %s is in logs, pages, Leases or Events", entry)
			}
		}
	}
}
