package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

// tenantNamespaces is how many namespaces a tenant has, each with all of the worst policies.
const tenantNamespaces = 20

// TestAThousandOfTheWorstPolicies starts Usher twice in a cluster where a tenant has stored them: the policies of
// others are in force, and the second start does not try those again that did not compile in the first.
func TestAThousandOfTheWorstPolicies(t *testing.T) {
	if *besieged < time.Minute {
		t.Skip("it takes minutes: -args -besieged 1m")
	}
	c := newTenancy(t)
	var writers errgroup.Group
	writers.SetLimit(16)
	stored := 0
	for i := range tenantNamespaces {
		namespace := fmt.Sprintf("%s-%02d", hostileTenant, i)
		_, err := c.kube.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range worstPolicies(t, namespace) {
			stored++
			writers.Go(func() error {
				resource, err := c.of(w.policy)
				if err != nil {
					return err
				}
				_, err = resource.Create(context.Background(), w.policy, metav1.CreateOptions{})
				return err
			})
		}
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"first", "second"} {
		ready := c.start(t)
		force := eventually(t, "honest policies in force", func() error { return c.honest(testContext(t), t) })
		t.Logf("%s start with %d stored policies: ready after %v, honest policies in force %v later, %d MiB of memory",
			which, stored, ready.Round(time.Millisecond), force.Round(time.Millisecond), memoryOfTree(c.process.PID)>>20)
		settled := within(t, 5*time.Minute, "all policies compiled or stopped", func() error { return c.settled(t, stored) })
		t.Logf("all are compiled or stopped %v later", settled.Round(time.Millisecond))
		c.process.Stop()
	}
}

// settled returns an error while the status of a policy does not say what came of compiling it.
func (c *tenancy) settled(t *testing.T, want int) error {
	t.Helper()
	known, pending := 0, 0
	for _, kind := range []string{"ObjectPolicy", "AuthorizationPolicy"} {
		one := parse(t, "{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {name: x}}", kind)
		resource, err := c.of(one)
		if err != nil {
			return err
		}
		all, err := resource.List(testContext(t), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			conditions, _, _ := unstructured.NestedSlice(all.Items[i].Object, "status", "conditions")
			switch text := fmt.Sprint(conditions); {
			case strings.Contains(text, "has not been compiled yet"):
				pending++
			case len(conditions) > 0:
				known++
			}
		}
	}
	// Policies in CUE are compiled by other workers.
	if pending > 0 || known < want-2*tenantNamespaces {
		return fmt.Errorf("%d are known and %d pending of %d", known, pending, want)
	}
	return nil
}

// TestAnObjectDoesNotStopAPolicy has alice, who may write no policies, create objects with a quantity that
// would take hours to parse, where an operator's policy reads it.
func TestAnObjectDoesNotStopAPolicy(t *testing.T) {
	if *besieged < time.Minute {
		t.Skip("it takes minutes: -args -besieged 1m")
	}
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	namespace := r.Namespace(t)
	r.grant(t, "alice", namespace, "[{apiGroups: [''], resources: [configmaps], verbs: [create]}]")
	// What API servers do when nobody answers is Ignore, unless it is set.
	r.serve(t)
	for _, where := range []string{"metadata.?annotations.?limit", "?data.?limit"} {
		r.enforce(t, parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: limit-in-%[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]q}}}
  validations: [{expression: "quantity(object.%[3]s.orValue('0')).isLessThan(quantity('10'))", message: the limit is too high}]
`, strings.Trim(strings.Split(where, ".")[0], "?"), namespace, where))
	}
	alice := r.as(t, "alice")
	with := func(field, value string) *unstructured.Unstructured {
		object := configMap(t, namespace, "alices")
		if field == "data" {
			object.Object["data"] = map[string]any{"limit": value}
		} else {
			object.SetAnnotations(map[string]string{"limit": value})
		}
		return object
	}
	eventually(t, "alice's rights", func() error {
		_, err := alice.try(testContext(t), with("data", "9"))
		return err
	})
	for _, field := range []string{"annotations", "data"} {
		if _, err := alice.try(testContext(t), with(field, "9")); err != nil {
			t.Errorf("%s within the limit: %v", field, err)
		}
		for value, told := range map[string]string{"11": "the limit is too high", "1e-999999999": "takes too long", "1e999999999": "takes too long"} {
			began := time.Now()
			_, err := alice.try(testContext(t), with(field, value))
			took := time.Since(began)
			if err := wantDenied(err, told); err != nil {
				t.Errorf("%s %s: %v", field, value, err)
			}
			t.Logf("%s %s is denied after %v", field, value, took.Round(time.Millisecond))
		}
	}
}

// TestCommandsOnTheWorstPolicies has commands work on them: each ends by itself, and soon after SIGTERM.
func TestCommandsOnTheWorstPolicies(t *testing.T) {
	if *besieged < time.Minute {
		t.Skip("it takes minutes: -args -besieged 1m")
	}
	t.Parallel()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policies, objects := filepath.Join(dir, "policies"), filepath.Join(dir, "objects")
	if err := errors.Join(os.Mkdir(policies, 0o700), os.Mkdir(objects, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, w := range worstPolicies(t, hostileTenant) {
		for folder, object := range map[string]*unstructured.Unstructured{policies: w.policy, objects: w.meets} {
			if object == nil {
				continue
			}
			text, err := yaml.Marshal(object.Object)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, w.policy.GetName()+".yaml"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{
		{"check", policies, "--policy-timeout=2s"}, {"decide", "-p", policies, "-f", objects, "--policy-timeout=2s"}, {"audit", "-p", policies, "--policy-timeout=2s", objects},
	} {
		began := time.Now()
		out, err := exec.CommandContext(testContext(t), binary, args...).CombinedOutput()
		var exit *exec.ExitError
		if err == nil || !errors.As(err, &exit) || exit.ExitCode() < 1 || exit.ExitCode() > 2 {
			t.Errorf("usher %s: %v: %.2000s", args[0], err, out)
		}
		t.Logf("usher %s ends after %v: %v", args[0], time.Since(began).Round(time.Millisecond), err)
		t.Logf("usher %s ends %v after SIGTERM", args[0], terminated(t, exec.Command(binary, args...)).Round(time.Millisecond))
		if args[0] != "check" {
			continue
		}
		// The other commands refuse to work with what does not compile.
		for _, found := range withErrors.FindAllStringSubmatch(string(out), -1) {
			if err := os.Remove(found[1]); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
}

// withErrors is the path of a policy with an error in what usher check prints.
var withErrors = regexp.MustCompile(`(?m)^(\S+?\.yaml):[0-9:]+ error:`)

// terminated starts a command, terminates it while it works, and returns how long it takes to end.
func terminated(t *testing.T, command *exec.Cmd) time.Duration {
	t.Helper()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("%v ended before it was terminated: %v", command.Args, err)
	case <-time.After(2 * time.Second):
	}
	began := time.Now()
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(deadline):
		_ = command.Process.Kill()
		t.Errorf("%v outlives SIGTERM", command.Args)
	}
	return time.Since(began)
}
