package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

var from = flag.String("from", "", "commit or tag from which TestUpgradeFrom upgrades, and to which it goes back")

// A sentry tries one request for each policy all the time: what a policy refuses is refused by it, and what is exempted
// is admitted.
type sentry struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	rounds   int
	problems []error
}

// A watched policy is one whose effect on one request is known.
type watched struct {
	policy  *unstructured.Unstructured
	request *unstructured.Unstructured
	// refusal is the message, and empty if the request is admitted.
	refusal string
}

func (w *watched) check(ctx context.Context, r *rig) error {
	_, err := r.try(ctx, w.request)
	if w.refusal != "" {
		err = wantDenied(err, w.refusal)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.policy.GetKind(), w.policy.GetName(), err)
	}
	return nil
}

func (r *rig) stand(t *testing.T, all []watched) *sentry {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &sentry{stop: stop}
	s.done.Go(func() {
		for ctx.Err() == nil {
			for i := range all {
				if err := all[i].check(ctx, r); err != nil && ctx.Err() == nil {
					s.mu.Lock()
					s.problems = append(s.problems, fmt.Errorf("%s: %w", time.Now().Format("15:04:05.000"), err))
					s.mu.Unlock()
				}
			}
			s.mu.Lock()
			s.rounds++
			s.mu.Unlock()
			time.Sleep(pollEvery)
		}
	})
	t.Cleanup(s.end)
	return s
}

func (s *sentry) end() {
	s.stop()
	s.done.Wait()
}

// report fails the test if something was not as it should be since the last report.
func (s *sentry) report(t *testing.T, stage string, l *load) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s: %d writes so far, %d sent again; each policy was tried %d times", stage, l.admitted.Load(), l.retried.Load(), s.rounds)
	for i, err := range s.problems {
		if i < 5 {
			t.Errorf("%s: %d times a policy was not in force, or a request failed: %v", stage, len(s.problems), err)
		}
	}
	s.problems = nil
	for _, err := range l.problems() {
		t.Errorf("%s: a write was lost: %v", stage, err)
	}
	if n := l.retried.Swap(0); n > 0 {
		t.Errorf("%s: %d writes failed and were sent again", stage, n)
	}
}

// guarded stores a policy of each kind that tenants and administrators write, and returns requests about them.
func (o *rollout) guarded(t *testing.T, namespace string) []watched {
	t.Helper()
	named := func(name, label string) *unstructured.Unstructured {
		c := configMap(t, namespace, name)
		c.SetLabels(map[string]string{"app": "cart", label: "forbidden"})
		return c
	}
	forbidden := named("forbidden", "app")
	all := []watched{
		{o.enforce(t, parse(t, forbidding, namespace)), forbidden, "not here"},
		{o.enforce(t, labelled(t, namespace, "Deny")), named("labelled", "x"), "no x"},
		{o.enforce(t, refusing(t, namespace, "owned")), configMap(t, namespace, "owned"), "refused by owned"},
		{o.enforce(t, refusing(t, namespace, "exempted")), configMap(t, namespace, "exempted"), ""},
	}
	exemption, err := o.apply(testContext(t), exemptingIn(t, namespace, "exemption", "exempted"))
	if err != nil {
		t.Fatal(err)
	}
	o.awaitCondition(t, exemption, "Proven", "True")
	o.awaitProven(t, o.enforce(t, granting(t, namespace, "read")), "True", "True")
	for i := range all {
		eventually(t, "the policy to act", func() error { return all[i].check(testContext(t), o.rig) })
	}
	return all
}

// stay waits until the status of policies says that they are in force, and proven where that counts.
func (o *rollout) stay(t *testing.T, all []watched) {
	t.Helper()
	for i := range all {
		resource, err := o.of(all[i].policy)
		if err != nil {
			t.Fatal(err)
		}
		current, err := resource.Get(testContext(t), all[i].policy.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.awaitCondition(t, current, "Enforced", "True")
		if current.GetKind() == "ObjectPolicy" {
			o.awaitCondition(t, current, "Proven", "True")
		}
	}
}

// TestUpgradeFrom upgrades two replicas from a commit as docs/upgrading.md says, and goes back: CRDs, rights, one replica
// after the other, each with the rights of the manifests. With failure policy Fail no request is lost, and each policy that
// was stored before is in force all the time.
func TestUpgradeFrom(t *testing.T) {
	t.Parallel()
	if *from == "" {
		t.Skip("make upgrade-test says from which commit")
	}
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short", *from+"^{commit}").Output()
	if err != nil {
		t.Fatalf("-from %s: %v", *from, err)
	}
	commit, source := strings.TrimSpace(string(out)), t.TempDir()
	old, err := binaryAt(commit)
	if err = errors.Join(err, unpack(commit, source)); err != nil {
		t.Fatal(err)
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	behind := newNetwork(t)
	// The Secret has the name that the manifests give a right to.
	o := &rollout{behind: behind, args: []string{"--cert-secret=usher-cert"}, rig: newRigOf(t, sandbox.Options{
		Exclusive: true,
		Services:  []string{usher.Namespace + "/usher=" + behind.address()},
	}, source)}
	o.applyRights(t, source, nil)
	o.kubeconfig = o.kubeconfigAs(t, "system:serviceaccount:"+usher.Namespace+":usher")
	o.add(t, old)
	o.add(t, old)
	namespace := o.Namespace(t)
	o.enforce(t, labelling(t, namespace, namespace, "always"))
	all := o.guarded(t, namespace)
	o.acting(t, namespace, "always")

	l, s := o.underLoad(t, namespace, "always", 2*pollEvery), o.stand(t, all)
	l.await(t, 100)
	s.report(t, "before the upgrade, from "+commit, l)
	if err := usher.InstallCRDs(testContext(t), o.RESTConfig, filepath.Join(root, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	l.await(t, 100)
	s.report(t, "with new CRDs", l)
	o.applyRights(t, root, nil)
	o.swap(t, binary, l)
	mixed := o.beside(t, namespace, l)
	s.report(t, "with one replica of each version", l)
	o.swap(t, binary, l)
	o.stay(t, all)
	s.report(t, "after the upgrade", l)
	o.complete(t)
	// Whether it was proven depends on which replica was asked.
	if out, code := o.authz(t, "adopt", "--all"); code != 0 {
		t.Errorf("adopt: exit status %d:\n%s", code, out)
	}
	o.awaitCondition(t, mixed, "Evaluated", "True")
	edited, err := o.apply(testContext(t), parse(t, strings.ReplaceAll(forbidding, "not here", "not here, edited"), namespace))
	if err != nil {
		t.Fatal(err)
	}
	o.awaitCondition(t, edited, "Enforced", "True")
	l.await(t, 100)
	s.report(t, "after an edit", l)

	// Helm leaves the CRDs as they are.
	o.replace(t, old, l)
	o.applyRights(t, source, nil)
	o.stay(t, all)
	l.await(t, 100)
	l.end()
	s.end()
	s.report(t, "after the downgrade", l)
}

// beside writes a candidate, and what it is for, while a replica beside does not know such a kind: that one makes no proof,
// and who writes is told to try again.
func (o *rollout) beside(t *testing.T, namespace string, l *load) *unstructured.Unstructured {
	t.Helper()
	candidate := candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: %q}", namespace), nil, withoutSecrets(t, namespace))
	eventually(t, "a replica that knows candidates to be asked", func() error {
		_, err := o.apply(testContext(t), candidate)
		if err != nil && !strings.Contains(err.Error(), "if Usher is being upgraded, try again") {
			t.Fatal(err)
		}
		return err
	})
	for i := range 20 {
		o.create(t, parse(t, `{apiVersion: v1, kind: Secret, metadata: {name: s%d, namespace: %s}}`, i, namespace))
		l.await(t, 10)
	}
	return candidate
}

// complete waits until the new replicas read all kinds, with the new CRDs and rights.
func (o *rollout) complete(t *testing.T) {
	t.Helper()
	for _, process := range o.running {
		eventually(t, "all kinds to be read", func() error {
			for _, state := range []string{"absent", "forbidden", "older", "failing"} {
				if n := sum(t, process, "usher_policy_kinds", `state="`+state+`"`); n != 0 {
					return fmt.Errorf("%v kinds are %s:\n%s", n, state, verbose(process))
				}
			}
			return nil
		})
	}
}
